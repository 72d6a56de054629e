# SPDX-License-Identifier: Apache-2.0
"""A neighbour on a disk whose service time is known: named with all that it costs a writer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import iostrata
from iostrata.columns import Ints
from tests.root.conftest import iostrata as run
from tests.root.conftest import serve_slowly
from tests.root.test_record import good
from tests.root.test_who import NAMED, neighbour, noisy

__all__ = ["noisy"]

SERVICE_S = 0.03
"""Of each request. The disk has one at a time, so all else is small."""
WRITES = 9
MORE, HICCUPS, TRIES = 1.1, 1, 3
"""A busy machine takes some ms of a write or two. What is told wrong, is so each time."""

# A disk and its journal are recorded from the first write on. What was under way then, of which
# nothing tells whose it is, ends while the writer sleeps: that write is not looked at.
WRITER = """
import os, sys, time
name, flags, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
fd = os.open(name, os.O_RDWR | os.O_CREAT | flags)
os.write(fd, bytes(count << 12))
os.fdatasync(fd)
time.sleep(0.6)
os.lseek(fd, 0, os.SEEK_SET)
for _ in range(count):
    os.write(fd, bytes(4096))
    os.fdatasync(fd)
"""
FLAGS = {"overwrites": 0, "appends": os.O_APPEND}

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


@pytest.fixture(scope="module")
def slow() -> Iterator[Path]:
    """A file system with a journal, on a disk that serves one request after the other."""
    with ExitStack() as stack:
        memory = Path(stack.enter_context(TemporaryDirectory(dir="/dev/shm")))
        image, place = memory / "image", memory / "place"
        place.mkdir()
        with image.open("wb") as file:
            file.truncate(256 << 20)
        # No checkpoint comes between, which whoever begins a handle writes for all others.
        options = ("-E", "lazy_itable_init=0", "-J", "size=64")
        subprocess.run(["mkfs.ext4", "-q", "-F", *options, image], check=True)
        serve_slowly(image, SERVICE_S, stack)
        if subprocess.run(["mount", "-o", "loop", image, place], check=False).returncode:
            pytest.skip("no loop device can be mounted")
        stack.callback(subprocess.run, ["umount", str(place)], check=True)
        yield place


@dataclass(frozen=True)
class Found:
    """ns of each write but the first: its latency, and what was whose."""

    begin_ns: int
    end_ns: int
    latency_ns: Ints
    parts: dict[str, Ints]
    """By control group, or else process."""


def recorded(slow: Path, kind: str) -> Found:
    recording, file = f"{slow}-recording", str(slow / kind)
    writer = (sys.executable, "-c", WRITER, file, str(FLAGS[kind]), str(WRITES))
    done = run("record", "--who", "-o", recording, "--force", "--", *writer)
    good(done.returncode, done.stderr)
    found = iostrata.open(recording).analyse()
    behind, latency = found.behind, found.writes.latency_ns
    names = [who.cgroup.strip("/") or who.process for who in behind.names]
    parts = {name: np.zeros(len(latency), np.int64) for name in names}
    for write, who, time_ns in zip(behind.write, behind.who, behind.time_ns, strict=True):
        parts[names[who]][write] += time_ns
    order = np.argsort(found.writes.begin_ns)[1:]
    assert len(order) == WRITES
    return Found(
        found.writes.begin_ns[order[0]],
        found.writes.end_ns[order[-1]],
        latency[order],
        {name: part[order] for name, part in parts.items()},
    )


@dataclass(frozen=True)
class Cost:
    """ns of each write: what a neighbour cost, and what was told to be its."""

    injected: Ints
    told: Ints

    @property
    def share(self) -> float:
        missing = np.abs(self.injected - self.told)
        usual = np.argsort(missing)[: len(missing) - HICCUPS]
        return float(self.told[usual].sum() / self.injected[usual].sum())


def service_ns(slow: Path, found: Found) -> float:
    """What a request took the disk meanwhile, with the way to it and back: it is never idle."""
    served = np.loadtxt(slow.with_name("image-served"), np.int64)
    took = np.diff(served[(served > found.begin_ns) & (served < found.end_ns)])
    return float(took[took < 2e9 * SERVICE_S].mean())


def cost_of(slow: Path, noisy: Path, program: str, kind: str) -> Cost:
    free = recorded(slow, kind)
    other = neighbour(noisy, sys.executable, "-c", program, str(slow / "other"))
    try:
        while not (slow / "other.begun").exists():
            time.sleep(0.01)
        # What the kernel writes half a minute after it was changed is nobody's here.
        subprocess.run(["sync", "-f", slow], check=True)
        beside = recorded(slow, kind)
    finally:
        other.kill()
        other.wait()
    (slow / "other.begun").unlink()
    assert noisy.name not in free.parts
    own = np.rint(np.median(free.latency_ns) / SERVICE_S / 1e9) * service_ns(slow, beside)
    return Cost(beside.latency_ns - own, beside.parts[noisy.name])


@pytest.mark.parametrize("kind", FLAGS)
@pytest.mark.parametrize("program", [READS, SYNCED, CHANGES], ids=["reads", "writes", "changes"])
def test_all_that_a_neighbour_costs_is_its(
    slow: Path, noisy: Path, program: str, kind: str
) -> None:
    # Flushes and commits are for both: only reads leave the writer all that was its own.
    most = MORE if program == READS else np.inf
    for _ in range(TRIES):
        cost = cost_of(slow, noisy, program, kind)
        if NAMED <= cost.share <= most:
            break
    assert cost.injected.mean() > 0.9e9 * SERVICE_S, cost
    assert NAMED <= cost.share <= most, cost
