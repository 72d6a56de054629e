# SPDX-License-Identifier: Apache-2.0
"""SIGBUS: a file of a recording ended before what was mapped of it, or its disk failed."""

from __future__ import annotations

import ctypes
import os
import signal
from threading import RLock
from typing import Any

from iostrata.cli.story import complain
from iostrata.errors import RecordingError

HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)
# What the kernel calls must not be collected.
_kept: list[Any] = []


def explain_bus_errors() -> None:
    """What ended this program without a word ends it with one, and the status of its kind.

    A handler of Python's would never run: it waits for the instruction that failed to end, which
    is begun again and again. The C library's is called in its midst, and does not return.
    """
    program, ending = os.getpid(), RLock()

    def told(number: int) -> None:
        # Another process's piece of work is done here again.
        if os.getpid() == program:
            # Another thread that meets it meanwhile waits for the end.
            ending.acquire()
            complain(
                "a file of the recording became shorter while it was read, or cannot be read",
                "begin again once nobody changes it; if that does not help, its disk failed",
            )
        os._exit(RecordingError.status)

    _kept.append(HANDLER(told))
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = ctypes.c_int, HANDLER
    libc.signal.restype = ctypes.c_void_p
    libc.signal(signal.SIGBUS, _kept[-1])
