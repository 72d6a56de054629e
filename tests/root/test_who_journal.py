# SPDX-License-Identifier: Apache-2.0
"""A neighbour in another control group, in the same journal: named, on this kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.root.test_who import NAMED, neighbour, noisy, parts, recorded

__all__ = ["noisy"]

# Many small changes of metadata, none of which it waits for.
CHANGES = """
import os, sys
os.makedirs(sys.argv[1], exist_ok=True)
while True:
    for number in range(1500):
        os.close(os.open(f"{sys.argv[1]}/{number}", os.O_RDWR | os.O_CREAT))
    for number in range(1500):
        os.unlink(f"{sys.argv[1]}/{number}")
"""
# Before a commit begins, nobody is seen to be in it.
JOURNAL = ("journal.locking", "journal.flushing", "journal.logging")


@pytest.fixture
def own(disk: Path) -> Iterator[Path]:
    """A file system with a journal that nobody else uses."""
    image, place = disk / "image", disk / "own"
    with image.open("wb") as file:
        file.truncate(1 << 30)
    place.mkdir()
    with ExitStack() as stack:
        try:
            subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
            subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no loop device can be mounted: {error}")
        stack.callback(subprocess.run, ["umount", str(place)], check=True)
        yield place


def test_whose_changes_a_commit_writes(own: Path, noisy: Path) -> None:
    """What it takes longer beside a neighbour is the neighbour's."""
    alone = parts(recorded(own, writes=200, appends=True), *JOURNAL)
    changes = neighbour(noisy, sys.executable, "-c", CHANGES, str(own / "changes"))
    while not (own / "changes").exists():
        pass
    try:
        beside = parts(recorded(own, writes=200, appends=True), *JOURNAL)
    finally:
        changes.kill()
        changes.wait()
    injected = sum(beside.values()) - sum(alone.values())
    assert noisy.name not in alone
    assert injected > 0.5 * sum(alone.values()), (alone, beside)
    assert beside[noisy.name] >= NAMED * injected, (alone, beside)
