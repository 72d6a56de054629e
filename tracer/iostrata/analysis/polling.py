# SPDX-License-Identifier: Apache-2.0
"""Which threads of the kernel submit for programs (io_uring's SQPOLL)."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import Ints, integers
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_WORKER

SQ_THREAD: Final = b"iou-sqp-"


def polling_threads(trace: Trace) -> Ints:
    """Thread ids, perhaps more than once."""
    threads = trace.points["thread"]
    # One that was met at its birth had its program's name; no other worker submits anything.
    polls = np.char.startswith(threads["comm"].astype("S16"), SQ_THREAD)
    polls |= integers(threads["kind"]) == THREAD_WORKER
    return integers(threads["subject_tid"])[polls]
