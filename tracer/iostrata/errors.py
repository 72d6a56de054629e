# SPDX-License-Identifier: Apache-2.0
"""Everything that can go wrong, and the exit status of each.

IostrataError            1  something failed that has no status of its own
├── UsageError           2  the command line does not make sense
│   └── MissingPackage   2  what was asked for needs a package of an extra
├── RecordingError       3  a recording cannot be read
├── PermissionDenied     4  eBPF is refused here (not root, no BTF, lockdown)
├── NothingToAnalyse     5  no synchronous write was recorded
├── RecorderError        6  the recorder could not start or ended badly
├── LabError             8  a lab's machines did not come up, or a check failed
├── CommandNotExecutable 126  the command to be recorded may not be executed
└── CommandNotFound      127  there is no such command

Status 7 is no error: the result is printed, but events were lost, the recording
is damaged (law 3), or more is left over or out than may be (law 9). Nor is 9: compare
printed its result, and it holds a regression. A command run by ``run`` or
``record`` that fails passes its own status on; 130 is Ctrl-C before anything was
recorded, and 141 that who was to read the output reads no more of it.
"""

from __future__ import annotations

STATUS_LOSSES = 7
STATUS_REGRESSION = 9
STATUS_INTERRUPTED = 130


class IostrataError(Exception):
    """What failed and why; ``hint`` says what to do about it."""

    status = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(IostrataError):
    status = 2


class MissingPackage(UsageError):
    pass


class RecordingError(IostrataError):
    status = 3


class PermissionDenied(IostrataError):
    status = 4


class NothingToAnalyse(IostrataError):
    status = 5


class RecorderError(IostrataError):
    status = 6


class LabError(IostrataError):
    status = 8


class CommandNotExecutable(IostrataError):
    status = 126


class CommandNotFound(IostrataError):
    status = 127
