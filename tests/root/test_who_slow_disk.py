# SPDX-License-Identifier: Apache-2.0
"""A neighbour on a disk whose service time is known: named with all that it costs a writer."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.root.conftest import serve_slowly
from tests.root.test_who import APPENDER, NAMED, WRITER, neighbour, noisy, parts, recorded

__all__ = ["noisy"]

SERVICE_S = 0.04
"""Of each request. The disk has one at a time, so all else is small."""
WRITES = 15
MORE, QUIET, TRIES = 1.1, 0.01, 3

BEGIN = """
import mmap, os, sys
def begun():
    os.close(os.open(sys.argv[1] + ".begun", os.O_CREAT))
data = mmap.mmap(-1, 4096)
with open(sys.argv[1], "wb") as file:
    file.write(bytes(1 << 18))
    os.fsync(file.fileno())
"""
READS = f"""{BEGIN}
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
begun()
while True:
    for place in range(64):
        os.preadv(fd, [data], place << 12)
"""
SYNCED = f"""{BEGIN}
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
begun()
while True:
    for place in range(64):
        os.pwrite(fd, data, place << 12)
"""
# Each round is a commit of many blocks, of which the writer's time of change is one.
CHANGES = f"""{BEGIN}
files = [os.open(f"{{sys.argv[1]}}.{{number}}", os.O_RDWR | os.O_CREAT) for number in range(256)]
os.fsync(files[0])
begun()
mode = 0
while True:
    mode ^= 1
    for fd in files:
        os.fchmod(fd, 0o600 | mode)
    os.fsync(files[0])
"""


@pytest.fixture
def slow() -> Iterator[Path]:
    """A file system with a journal, on a disk that serves one request after the other."""
    with ExitStack() as stack:
        memory = Path(stack.enter_context(TemporaryDirectory(dir="/dev/shm")))
        image, place = memory / "image", memory / "place"
        place.mkdir()
        with image.open("wb") as file:
            file.truncate(128 << 20)
        # No checkpoint comes between, which whoever begins a handle writes for all others.
        options = ("-E", "lazy_itable_init=0", "-J", "size=32")
        subprocess.run(["mkfs.ext4", "-q", "-F", *options, image], check=True)
        serve_slowly(image, SERVICE_S, stack)
        if subprocess.run(["mount", "-o", "loop", image, place], check=False).returncode:
            pytest.skip("no loop device can be mounted")
        stack.callback(subprocess.run, ["umount", str(place)], check=True)
        # What comes first only once (blocks, the inode) is in neither run.
        for program in (WRITER, APPENDER):
            subprocess.run([sys.executable, "-c", program, place / "file", "1"], check=True)
        yield place


@dataclass(frozen=True)
class Cost:
    """ns a write: what a neighbour cost, what was told to be its, what third ones' CPUs cost."""

    injected: float
    told: float
    others: float


def cost_of(slow: Path, noisy: Path, program: str, appends: bool) -> Cost:
    free = recorded(slow, writes=WRITES, appends=appends)
    other = neighbour(noisy, sys.executable, "-c", program, str(slow / "other"))
    try:
        while not (slow / "other.begun").exists():
            time.sleep(0.01)
        beside = recorded(slow, writes=WRITES, appends=appends)
    finally:
        other.kill()
        other.wait()
    (slow / "other.begun").unlink()
    rows = [row["layer"] for row in beside["layers"] if "behind" in row]
    assert noisy.name not in parts(free, *rows)
    queued, before = (parts(found, "wakeup.runqueue") for found in (beside, free))
    others = sum(queued.values()) - sum(before.values()) - queued.get(noisy.name, 0.0)
    injected = float(beside["total_ns"]["mean"] - free["total_ns"]["mean"]) - others
    return Cost(injected, parts(beside, *rows).get(noisy.name, 0.0), others)


# A writer that needs no commit meets those of others by chance, mostly in its first write: too
# seldom for a mean of few.
@pytest.mark.parametrize(
    ("program", "appends"),
    [(READS, False), (READS, True), (SYNCED, True), (CHANGES, True)],
    ids=["reads-overwrites", "reads-appends", "writes-appends", "changes-appends"],
)
def test_all_that_a_neighbour_costs_is_its(
    slow: Path, noisy: Path, program: str, appends: bool
) -> None:
    for _ in range(TRIES):
        cost = cost_of(slow, noisy, program, appends)
        # Where the CPUs were others', so was some of what the disk took.
        if abs(cost.others) < QUIET * cost.injected:
            break
    assert cost.injected > 0.9e9 * SERVICE_S, cost
    assert cost.told >= NAMED * cost.injected, cost
    # Flushes and commits are for both: only reads leave the writer all that was its own.
    assert program != READS or cost.told <= MORE * cost.injected, cost
