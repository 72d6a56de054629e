# SPDX-License-Identifier: Apache-2.0
"""The daemon of a guest's virtio file system: its requests are recorded, no row is made of them."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Programs, Visibility
from iostrata.trace.layout import THREAD_DAEMON

VIRTIOFS: Final = Declaration(
    programs=(Programs("virtiofs", thread=THREAD_DAEMON),),
    visibility=(
        Visibility(
            "virtiofs",
            ("virtiofs",),
            "which requests of a guest's file system this machine's daemon serves is not seen",
            absent="no virtiofsd runs here",
        ),
    ),
)
