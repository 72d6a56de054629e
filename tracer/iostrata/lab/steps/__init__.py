# SPDX-License-Identifier: Apache-2.0
"""Lab stage: the steps of a storage stack; a kind is a file, named in ``AnyStep``."""

from __future__ import annotations

from iostrata.lab.steps.cpu_quota import CpuQuota
from iostrata.lab.steps.device import Device
from iostrata.lab.steps.file_system import FileSystem
from iostrata.lab.steps.image import Image
from iostrata.lab.steps.netem import Netem
from iostrata.lab.steps.nfs import NfsMount, NfsServer
from iostrata.lab.steps.null_block import NullBlock
from iostrata.lab.steps.passthrough import Passthrough
from iostrata.lab.steps.service import Service

AnyStep = (
    NullBlock
    | FileSystem
    | NfsServer
    | NfsMount
    | Image
    | Device
    | Passthrough
    | CpuQuota
    | Netem
    | Service
)

__all__ = [
    "AnyStep",
    "CpuQuota",
    "Device",
    "FileSystem",
    "Image",
    "Netem",
    "NfsMount",
    "NfsServer",
    "NullBlock",
    "Passthrough",
    "Service",
]
