# SPDX-License-Identifier: Apache-2.0
"""What goes wrong becomes text (what, why, what to do) and a status, never a traceback."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import iostrata
from iostrata import cli
from iostrata.__main__ import BLAS_THREADS
from iostrata.cli import status_of
from iostrata.record import Refusal, permission

RECORDINGS = Path(__file__).parents[1] / "recordings"


def failing(error: BaseException) -> object:
    def command() -> int:
        """Fail."""
        raise error

    return command


def status_and_story(
    error: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str]:
    monkeypatch.setattr(cli, "COMMANDS", ("command",))
    monkeypatch.setattr(cli, "function_of", lambda name: failing(error))
    monkeypatch.setattr(cli, "_discard_stdout", lambda: None)
    status = status_of(["command"])
    captured = capsys.readouterr()
    assert captured.out == ""
    return status, captured.err


@pytest.mark.parametrize(
    ("error", "status", "story"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/x/y"), 1, "/x/y: Permission denied"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
        (MemoryError("Unable to allocate"), 1, "there is not enough memory for this"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 1, "there is not enough memory"),
        (ZeroDivisionError("division by zero"), 1, "this is a bug: ZeroDivisionError"),
    ],
)
def test_status(
    error: BaseException,
    status: int,
    story: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, text = status_and_story(error, capsys, monkeypatch)
    assert found == status
    assert story in text
    assert bool(text) == bool(story)
    assert "Traceback" not in text


def test_a_bug_shows_its_traceback_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOSTRATA_DEBUG", "1")
    assert "Traceback" in status_and_story(ZeroDivisionError(), capsys, monkeypatch)[1]


@pytest.mark.parametrize(
    ("arguments", "status", "story"),
    [
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["run", "--nonsense"], 2, "No such option: --nonsense"),
        (["run", "--by", "colour"], 2, "Invalid value for '--by'"),
        (["run"], 2, "nothing to record"),
        (["record", "--all"], 2, "Missing option '--output'"),
        (["replay", "/nonexistent"], 3, "/nonexistent does not exist"),
        (["dump", "/nonexistent"], 3, "/nonexistent does not exist"),
        (["replay", "/x", "--json", "-", "--csv", "-"], 2, "cannot both have standard output"),
        (["replay", "/x", "--json", "/nonexistent/file"], 2, "no directory /nonexistent"),
        (["bench", "--no-record", "-f", "/nonexistent/file"], 2, "no directory /nonexistent"),
        (["bench", "--no-record", "-f", "/dev/null"], 2, "/dev/null exists"),
        (["bench", "--no-record", "-f", "/proc/x"], 2, "on proc, which is memory"),
        (["run", "--repeat", "1001", "true"], 2, "Invalid value for '--repeat'"),
        (["run", "--repeat", "9" * 30, "true"], 2, "Invalid value for '--repeat'"),
        (["dump", "/x", "--tid", "-1"], 2, "Invalid value for '--tid'"),
        (["replay", "/x", "--jobs", "9" * 20], 2, "Invalid value for '--jobs'"),
        (["bench", "-s", "0"], 2, "Invalid value for '--seconds'"),
        (["bench", "-s", "long"], 2, "Invalid value for '--seconds'"),
        (["bench", "-s", "inf"], 2, "Invalid value for '--seconds'"),
        (["top", "--replay", "/x", "--speed", "1e308"], 2, "Invalid value for '--speed'"),
    ],
)
def test_bad_command_lines(
    arguments: list[str], status: int, story: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(arguments) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("iostrata: ")
    assert story in captured.err


@pytest.mark.parametrize(
    ("options", "story"),
    [
        (["--pid", "99999999"], "--pid 99999999: there is no such process\n  try: ps -e"),
        (["--cgroup", "/none"], "--cgroup /none: there is no such control group"),
        (["--cgroup", "/sys/fs/cgroup/none"], "/none: there is no such control group"),
        (["--all", "--duration", "inf"], "--duration inf: no time to record for\n  try: give"),
        (["--all", "--duration", "nan"], "--duration nan: no time to record for"),
        (["--all", "--duration", "-1"], "--duration -1: no time to record for"),
        (["--all", "--duration", "0.0001"], "--duration 0.0001: no time to record for"),
        (
            ["--all", "--buffer", "1"],
            "--buffer 1: a ring of 1 KiB cannot be made\n  try: give a po",
        ),
        (["--all", "--buffer", "24"], "--buffer 24: a ring of 24 KiB cannot be made"),
        (["--device", "nonesuch"], "--device nonesuch: there is none\n  try: give a disk"),
        (["--device", "/dev/null"], "--device /dev/null: no block device"),
        (["--device", "9999999999:99999999999"], "--device 9999999999:99999999999: there is none"),
        (["--device", "4095:0"], "--device 4095:0: there is none"),
        (["--device", "0:1048576"], "--device 0:1048576: there is none"),
        (["--pid", "self", "true"], "Invalid value for '--pid'"),
        (["--all", "--comm", "x"], "--all and --comm contradict each other"),
        (["--pid", "PID", "--comm", "x"], "both must match, and nothing in that process or below"),
    ],
)
def test_filters_that_nothing_can_meet(
    options: list[str],
    story: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are told of before anything is written, and before rights are asked for."""
    monkeypatch.chdir(tmp_path)
    words = [str(os.getpid()) if word == "PID" else word for word in options]
    for command in (["run"], ["record", "-o", "place"]):
        assert status_of([*command, *words, "--", "true"]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert story in captured.err
    assert not list(tmp_path.iterdir())


def test_a_filter_that_some_thread_meets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(permission, "refusal", lambda: Refusal("no rights", "be root"))
    comm = Path("/proc/self/comm").read_text().strip()
    assert status_of(["run", "--pid", str(os.getpid()), "--comm", comm, "--", "true"]) == 4
    capsys.readouterr()


def test_the_help_to_read_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["timeline", "--nonsense"]) == 2
    assert capsys.readouterr().err.endswith("\n  try: iostrata timeline --help\n")


def test_ctrl_c_while_modules_are_loaded() -> None:
    program = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "iostrata.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from iostrata.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == -signal.SIGINT
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("closed", "status"), [(">&-", 1), ("2>&-", 0), ("<&- >&- 2>&-", 1), ("<&- 2>&-", 0)]
)
def test_a_standard_stream_may_be_closed(closed: str, status: int, tmp_path: Path) -> None:
    """As where a daemon starts it; no file that is opened later takes its place.

    A table that has nowhere to go is an error.
    """
    recording, table = RECORDINGS / "four_methods", tmp_path / "table.csv"
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m iostrata replay "$@" {closed}', sys.executable,
         str(recording), "--csv", str(table)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    nowhere = "iostrata: standard output: Bad file descriptor\n"
    assert (done.returncode, done.stderr) == (status, nowhere if closed == ">&-" else "")
    assert ("analysed" in done.stdout) == (status == 0)
    assert table.read_text().startswith("grouped_by,")


def test_a_table_for_a_closed_standard_output_is_an_error() -> None:
    command = 'exec "$0" -m iostrata export "$1" --csv - >&-'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, str(RECORDINGS / "four_methods")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "iostrata: /dev/stdout: Bad file descriptor\n")


def test_little_is_loaded_before_ctrl_c_is_seen_to() -> None:
    """What takes a moment would be interrupted with a traceback."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
import iostrata.__main__
print(*sorted(set(sys.modules) - before))
"""
    command = [sys.executable, "-I", "-S", "-c", program, str(Path(iostrata.__file__).parents[1])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "iostrata.__main__" in done.stdout.split()
    assert not {"typing", "enum", "re", "signal"}.intersection(done.stdout.split())


@pytest.mark.parametrize("chosen", [None, "2"])
def test_no_threads_wait_for_work_but_where_it_is_asked_for(chosen: str | None) -> None:
    """And a command that is run is told nothing of it."""
    program = """
import gc, os
from iostrata import __main__
told = os.environ.get(__main__.BLAS_THREADS)
cli = __main__._loaded()
import numpy
cli.function_of("replay")
print(len(os.listdir("/proc/self/task")), told == os.environ.get(__main__.BLAS_THREADS))
cli.status_of(["--version"])
print(gc.isenabled(), gc.get_freeze_count() > 0)
"""
    others = {name: value for name, value in os.environ.items() if name != BLAS_THREADS}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env=others | ({BLAS_THREADS: chosen} if chosen else {}),
    )  # fmt: skip
    threads, kept, *_, enabled, frozen = done.stdout.split()
    assert threads == "1" or chosen
    assert (kept, enabled, frozen) == ("True", "True", "True")


@pytest.mark.parametrize("command", [["run", "true"], ["record", "-o", "x", "true"]])
def test_without_rights(
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(permission, "refusal", lambda: Refusal("no rights", "be root"))
    assert status_of(command) == 4
    assert capsys.readouterr().err == "iostrata: no rights\n  try: be root\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG])
def test_a_place_that_cannot_be_made_is_told_with_what_to_do(
    number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /proc/x is, which no error of permissions forbids."""
    _, story = status_and_story(OSError(number, "why", "/proc/x"), capsys, monkeypatch)
    assert story.startswith(f"iostrata: /proc/x: {os.strerror(number)}\n  try: ")


def test_what_could_not_be_written_is_named_not_its_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "/source", None, "/target")
    assert status_and_story(error, capsys, monkeypatch)[1].startswith("iostrata: /target: No space")
