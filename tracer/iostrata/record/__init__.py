# SPDX-License-Identifier: Apache-2.0
"""Record stage: a Request in, a recording on disk and its Outcome out."""

from __future__ import annotations

from iostrata.record.permission import Refusal, check_ebpf, refusal
from iostrata.record.recorder import Outcome, Request, Target, find_recorder, record
from iostrata.record.status import Progress, RecorderListener

__all__ = [
    "Outcome",
    "Progress",
    "RecorderListener",
    "Refusal",
    "Request",
    "Target",
    "check_ebpf",
    "find_recorder",
    "record",
    "refusal",
]
