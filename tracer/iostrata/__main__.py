# SPDX-License-Identifier: Apache-2.0
"""The program: python -m iostrata, and what is installed as iostrata."""

# Of the interpreter itself: `signal` loads others, which takes a moment.
import _signal  # type: ignore[import-not-found]
import gc
import os
import sys
from importlib import import_module
from types import ModuleType

BLAS_THREADS = "OPENBLAS_NUM_THREADS"
STREAMS = "stdin", "stdout", "stderr"


def main() -> None:
    """Ctrl-C ends it without a word while its modules are loaded, too: that takes a moment."""
    _stand_in()
    handled = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if handled:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    cli = _loaded()
    if handled:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    cli.main()


def _loaded() -> ModuleType:
    """The command line. Nothing of it is garbage, until it begins to do something.

    NumPy's BLAS, of which hardly anything is asked, gets no threads, which would wait for more by
    running; a command that is recorded has its own.
    """
    gc.disable()
    chosen = BLAS_THREADS in os.environ
    os.environ.setdefault(BLAS_THREADS, "1")
    cli = import_module("iostrata.cli")
    if not chosen:
        del os.environ[BLAS_THREADS]
    return cli


def _stand_in() -> None:
    """For a standard stream that is closed: what is opened next had its number, and its output.

    What is printed with nowhere to go is an error then, but for what is said on standard error.
    """
    closed = [number for number, name in enumerate(STREAMS) if getattr(sys, name) is None]
    for _ in closed:
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for number in closed:
        own = os.open(os.devnull, os.O_RDONLY) if STREAMS[number] == "stdout" else number
        setattr(sys, STREAMS[number], os.fdopen(own, "w" if number else "r"))


if __name__ == "__main__":
    main()
