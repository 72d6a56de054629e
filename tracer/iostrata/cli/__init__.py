# SPDX-License-Identifier: Apache-2.0
"""The command line: arguments in, one command run, an exit status out.

To add a command: one module with one function of its name, whose docstring is its
help and whose result is the exit status, and its name in ``COMMANDS``.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Final

import typer
from typer.exceptions import TyperException

from iostrata import __version__
from iostrata.cli.bus_error import explain_bus_errors
from iostrata.cli.sides import TwoSides
from iostrata.cli.story import complain
from iostrata.cli.stream import whole
from iostrata.cli.values import Command, Group
from iostrata.errors import STATUS_INTERRUPTED, IostrataError, UsageError
from iostrata.foreign import shown
from iostrata.mask import owners_may
from iostrata.memory import keep_freed

COMMANDS: Final = (
    "run", "record", "join", "import", "replay", "estimate", "timeline", "top", "compare", "export",
    "html", "dump", "bench", "doctor", "lab",
)  # fmt: skip
# These end with a command line: no option of ours is looked for in it.
RUNNERS: Final = ("run", "record")

COMPLETING: Final = "_IOSTRATA_COMPLETE"
LINES: Final = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Where shells say that a line is to be completed, and put it."""

EPILOG: Final = """\
\b
Exit status:
  0    it worked
  1    something failed that has no status of its own
  2    the command line does not make sense
  3    a recording cannot be read
  4    eBPF is refused here (not root, no BTF, lockdown)
  5    no synchronous write was recorded
  6    the recorder could not start or ended badly
  7    the result is printed, with losses, damage, or much left out or over
  8    a lab's machines did not come up, or a check failed
  9    compare found a regression above the limit
  126  the command to be recorded may not be executed
  127  there is no such command
  130  Ctrl-C, or another signal to end before anything was recorded
  141  who was to read the output reads no more of it (| head)
A recorded command that fails passes its own status on.
"""
STATUS_UNEXPECTED: Final = 1
STATUS_BROKEN_PIPE: Final = 141

HINTS: Final = {
    errno.ENOSPC: "free some space, or use another disk (-o DIR, or the environment's TMPDIR)",
    errno.EDQUOT: "free some space, or use another disk (-o DIR, or the environment's TMPDIR)",
    errno.EACCES: "check its permissions, or use another directory",
    errno.EPERM: "check its permissions, or use another directory",
    errno.EROFS: "use a directory that can be written",
    errno.ENOENT: "check the path, or use a directory that can be made there",
    errno.ENOTDIR: "check the path: a part of it is a file",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
}


def main(arguments: Sequence[str] | None = None) -> None:
    sys.stdout, sys.stderr = whole(sys.stdout), whole(sys.stderr)
    explain_bus_errors()
    keep_freed()
    sys.exit(status_of(sys.argv[1:] if arguments is None else arguments))


def status_of(arguments: Sequence[str]) -> int:
    """Runs a command; the one place where what went wrong becomes text and a status."""
    with owners_may():
        status = _status_of(lambda: _run(arguments))
        # What was printed before something failed, too.
        return _status_of(sys.stdout.flush) or status


def _run(arguments: Sequence[str]) -> int | None:
    asked = application(_asked_for(arguments))
    if not gc.isenabled():
        # All that was loaded stays.
        gc.freeze()
        gc.enable()
    status: int | None = asked(
        args=list(arguments) or ["--help"], prog_name="iostrata", standalone_mode=False
    )
    return status


def _status_of(step: Callable[[], int | None]) -> int:
    try:
        status = step()
    except IostrataError as error:
        complain(str(error), error.hint)
        return error.status
    except TyperException as error:
        told = getattr(error, "ctx", None)
        complain(error.format_message(), f"{told.command_path if told else 'iostrata'} --help")
        return UsageError.status
    except KeyboardInterrupt:
        return STATUS_INTERRUPTED
    except BrokenPipeError:
        return _broken_pipe()
    except SystemExit as error:
        # Typer's own: 0 after completing for a shell, else its answer to a broken pipe.
        return _broken_pipe() if error.code else 0
    except MemoryError:
        return _out_of_memory()
    except OSError as error:
        if error.errno == errno.ENOMEM:
            return _out_of_memory()
        where = error.filename2 or error.filename or "standard output"
        complain(
            f"{shown(str(where))}: {_reason(error)}",
            HINTS.get(error.errno or 0, ""),
        )
        _discard_stdout()
        return IostrataError.status
    except Exception as error:
        return _unexpected(error)
    return status or 0


def application(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    app = typer.Typer(
        cls=Group,
        epilog=EPILOG,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    )
    app.callback()(_top)
    for name in commands:
        app.command(
            name,
            cls=TwoSides if name == "compare" else Command,
            context_settings={"allow_interspersed_args": name not in RUNNERS},
        )(function_of(name))
    return app


def function_of(command: str) -> Callable[..., int]:
    """Loaded now: what other commands need is not."""
    # A word of Python's own is no name there.
    name = f"{command}_" if iskeyword(command) else command
    function: Callable[..., int] = getattr(import_module(f"iostrata.cli.{name}"), name)
    return function


def _asked_for(arguments: Sequence[str]) -> Sequence[str]:
    """The one command that is, else all of them: for help, a wrong name, and to complete it."""
    if list(arguments) == ["--version"]:
        return ()
    named = arguments or _to_complete()
    return named[:1] if named and named[0] in COMMANDS else COMMANDS


def _to_complete() -> Sequence[str]:
    """What is behind the program's name on a command line that a shell asks about, if any does."""
    if COMPLETING not in os.environ:
        return ()
    line = next(filter(None, map(os.environ.get, LINES)), "")
    return line.split()[1:]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"iostrata {__version__}")
        raise typer.Exit


def _top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Where did this synchronous write spend its time?

    Records kernel events with eBPF, ties them together write by write, and
    prints how much of the latency each layer held.

    \b
      sudo iostrata run -- pg_test_fsync -s 1
    """


def _reason(error: OSError) -> str:
    """In the system's words: libraries have longer ones."""
    return os.strerror(error.errno) if error.errno else str(error)


def _broken_pipe() -> int:
    _discard_stdout()
    return STATUS_BROKEN_PIPE


def _discard_stdout() -> None:
    """What is still buffered has no reader: keep the interpreter from writing it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _out_of_memory() -> int:
    complain(
        "there is not enough memory for this",
        "raise its limit (ulimit -v, or memory.max of its control group); --jobs 1 needs least",
    )
    return IostrataError.status


def _unexpected(error: Exception) -> int:
    if os.environ.get("IOSTRATA_DEBUG") == "1":
        traceback.print_exception(error)
    complain(
        f"this is a bug: {type(error).__name__}: {error}",
        "report it with the output of the same command under IOSTRATA_DEBUG=1",
    )
    return STATUS_UNEXPECTED
