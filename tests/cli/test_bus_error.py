# SPDX-License-Identifier: Apache-2.0
"""A file that becomes shorter while it is mapped: an error as any other, not a signal's end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from iostrata.errors import RecordingError
from tests.cli.recordings import small_recording

# What is mapped is gone before it is looked at, as where another program truncates it.
TRUNCATED = """
import mmap, os, sys
from iostrata import cli

class Mapped(mmap.mmap):
    def __new__(cls, fd, length, access):
        mapped = super().__new__(cls, fd, length, access=access)
        os.truncate(f"/proc/self/fd/{fd}", 0)
        return mapped

mmap.mmap = Mapped
cli.main(sys.argv[1:])
"""
# One process of several meets it first.
WORKERS = """
import mmap, os, sys, tempfile
from iostrata import cli, crew

with tempfile.TemporaryFile() as file:
    file.truncate(1 << 20)
    mapped = mmap.mmap(file.fileno(), 0)
    file.truncate(0)
work = lambda piece: mapped[piece << 12] if piece > 2 else piece
cli.status_of = lambda arguments: print(*crew.each(work, range(9), 3))
cli.main([])
"""


def ended(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", script, *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def test_a_stream_that_is_truncated_while_it_is_read(tmp_path: Path) -> None:
    found = ended(TRUNCATED, "replay", str(small_recording(tmp_path / "machine")))
    assert (found.returncode, found.stdout) == (RecordingError.status, "")
    what, hint = found.stderr.splitlines()
    assert what.startswith("iostrata: a file of the recording became shorter")
    assert hint.startswith("  try: ")


def test_it_is_said_by_one_of_several_processes() -> None:
    found = ended(WORKERS)
    assert (found.returncode, found.stdout) == (RecordingError.status, "")
    assert len(found.stderr.splitlines()) == 2
