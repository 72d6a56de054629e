# SPDX-License-Identifier: Apache-2.0
"""The program that is forked from one that has started is as one that was started itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from iostrata.errors import RecordingError
from tests.root.conftest import IOSTRATA, LIMIT_S, STARTED

# What a command has from who recorded it.
TELLS = """
grep -E '^(Umask|Sig[BIC]|Cap|NoNewPrivs|Seccomp|Cpus_allowed)' /proc/self/status
pwd; umask; ulimit -a; env | grep -v PYTEST_ | sort; ls /proc/self/fd; readlink /proc/self/fd/0
ps -o pgid=,sid= $$; echo to the other >&2; exit 3
"""
RECORD = ("record", "--quiet", "-o", "recording", "--force", "--")


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("no such command",),
        ("replay", "nowhere"),
        ("replay", "nowhere", "--jobs", "x"),
        (*RECORD, "sh", "-c", TELLS),
        (*RECORD, "./nothing"),
        ("record", "-o", "/proc/where", "--", "true"),
    ],
)
def test_it_does_and_says_the_same(words: tuple[str, ...], disk: Path) -> None:
    forked = STARTED.run(words, disk, LIMIT_S)
    began = subprocess.run(
        [*IOSTRATA, *words], cwd=disk, capture_output=True, text=True, check=False
    )
    assert (forked.stdout, forked.stderr) == (began.stdout, began.stderr)
    assert forked.returncode == began.returncode


def test_what_takes_too_long_is_killed(disk: Path) -> None:
    words = ("record", "-o", "recording", "--", "sh", "-c", "echo $PPID; exec sleep 60")
    with pytest.raises(subprocess.TimeoutExpired):
        STARTED.run(words, disk, 3)
    assert STARTED.run(("replay", "nowhere"), disk, LIMIT_S).returncode == RecordingError.status


def test_who_has_another_environment_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert STARTED.fits()
    monkeypatch.setenv("LC_ALL", "C")
    assert not STARTED.fits()
