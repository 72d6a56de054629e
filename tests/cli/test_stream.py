# SPDX-License-Identifier: Apache-2.0
"""What is printed: whole, or an error; whether the interpreter buffers or is told not to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

RECORDING = str(Path(__file__).parents[1] / "recordings" / "four_methods")
LIMITED = 'ulimit -f 1; exec "$@"'


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def environment(request: pytest.FixtureRequest) -> Mapping[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": request.param}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "iostrata", *words]


@pytest.mark.parametrize(
    "words",
    [
        "replay DIR", "replay DIR --json -", "replay DIR --csv -", "timeline DIR",
        "timeline DIR --json -", "compare DIR DIR", "dump DIR", "doctor --json",
        "export DIR --csv -", "html DIR -o -", "import --script", "replay --help",
    ],
)  # fmt: skip
def test_what_has_no_room_is_an_error(
    words: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    """A file that may have one block: what is written to it is short first, and then refused."""
    told = words.replace("DIR", RECORDING).split()
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(
            ["bash", "-c", LIMITED, "bash", *command(*told)],
            stdout=out, stderr=subprocess.PIPE, text=True, env=environment, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.endswith(": File too large\n")
    assert (tmp_path / "out").stat().st_size <= 1024


@pytest.mark.parametrize("words", ["dump DIR", "timeline DIR --slowest 100", "replay DIR --json -"])
def test_a_reader_who_is_slow_gets_all(words: str, environment: Mapping[str, str]) -> None:
    """Also by a pipe that somebody set not to block."""
    told = command(*words.replace("DIR", RECORDING).split())
    expected = subprocess.run(told, capture_output=True, check=True).stdout
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with subprocess.Popen(told, stdout=writer, stderr=subprocess.PIPE, env=environment) as running:
        os.close(writer)
        # It has written what the pipe holds.
        time.sleep(1)
        with os.fdopen(reader, "rb") as pipe:
            assert pipe.read() == expected
        assert running.stderr
        assert running.stderr.read() == b""
        assert running.wait() == 0


def test_a_reader_who_leaves(environment: Mapping[str, str]) -> None:
    told = command("dump", RECORDING)
    with subprocess.Popen(
        told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as running:
        assert running.stdout
        assert running.stderr
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() == 141


def test_what_was_printed_before_something_failed() -> None:
    program = """
from iostrata import cli
from iostrata.errors import RecordingError

def dump() -> int:
    '''Print, and fail.'''
    print("an event")
    raise RecordingError("the rest cannot be read")

cli.function_of = lambda name: dump
cli.main(["dump"])
"""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )  # fmt: skip
    assert done.returncode == 1
    first, second, hint = done.stderr.splitlines()
    assert first == "iostrata: the rest cannot be read"
    assert second == "iostrata: standard output: No space left on device"
    assert hint.startswith("  try: ")
