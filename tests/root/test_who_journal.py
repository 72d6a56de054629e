# SPDX-License-Identifier: Apache-2.0
"""A neighbour in another control group, in the same journal: named, on this kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.root.test_who import NAMED, STREAM, neighbour, noisy, parts, recorded

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
DISK = ("block.Q2D", "block.stacked", "device.data", "device.meta", "device.flush")
JOURNAL = ("journal.locking", "journal.flushing", "journal.logging")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """A disk and a journal that nobody else uses: a file in memory."""
    place = tmp_path / "own"
    place.mkdir()
    with ExitStack() as stack:
        memory = stack.enter_context(TemporaryDirectory(dir="/dev/shm"))
        image = Path(memory) / "image"
        with image.open("wb") as file:
            file.truncate(1 << 30)
        try:
            subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
            subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no loop device can be mounted: {error}")
        stack.callback(subprocess.run, ["umount", str(place)], check=True)
        yield place


def is_named(name: str, alone: dict[str, float], beside: dict[str, float]) -> None:
    """Of what is not the writer's own, all that there was not without the neighbour is its."""
    before, after = ({who: ns for who, ns in found.items() if not who.startswith("python")}
                     for found in (alone, beside))  # fmt: skip
    injected = sum(after.values()) - sum(before.values())
    assert name not in alone
    assert injected > 0.3 * sum(alone.values()), (alone, beside)
    assert beside[name] >= NAMED * injected, (alone, beside)


def test_whose_changes_a_commit_writes(own: Path, noisy: Path) -> None:
    alone = parts(recorded(own, writes=200, appends=True), *JOURNAL)
    changes = neighbour(noisy, sys.executable, "-c", CHANGES, str(own / "changes"))
    while not (own / "changes").exists():
        pass
    try:
        beside = parts(recorded(own, writes=200, appends=True), *JOURNAL)
    finally:
        changes.kill()
        changes.wait()
    is_named(noisy.name, alone, beside)


def test_whose_requests_a_loop_device_serves_first(own: Path, noisy: Path) -> None:
    alone = parts(recorded(own, writes=200), *DISK)
    stream = neighbour(noisy, sys.executable, "-c", STREAM, str(own / "stream"))
    while not (own / "stream").exists():
        pass
    try:
        beside = parts(recorded(own, writes=200), *DISK)
    finally:
        stream.kill()
        stream.wait()
    is_named(noisy.name, alone, beside)
