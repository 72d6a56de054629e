# SPDX-License-Identifier: Apache-2.0
"""What keeps bios from getting a request, on a disk of known service time: found in block.Q2G."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from tests.root.conftest import iostrata, serve_slowly, set_queue
from tests.root.test_record import good

SERVICE_S = 0.006
"""Of each request. The disk has one at a time."""
WRITERS, WRITES, TRIES = 10, 4, 3

# Writers that all begin at once, each with blocks of its own. Those of the page cache are written
# back by who wants them durable: a request each.
PREAMBLE = """
import ctypes, mmap, os, sys
disk, writers, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
libc, data, begin = ctypes.CDLL(None), mmap.mmap(-1, 4096), os.pipe()
number = next((number for number in range(1, writers) if not os.fork()), 0)
fd = os.open(disk, os.O_RDWR | FLAGS)
os.close(begin[1])
os.read(begin[0], 1)
for place in range(number * 64, number * 64 + writes):
    os.pwrite(fd, data, place << 13)
"""
END = """
while not number and writers > 1:
    os.wait()
    writers -= 1
"""
DIRECT = PREAMBLE.replace("FLAGS", "os.O_DIRECT | os.O_DSYNC") + END
CACHED = (
    PREAMBLE.replace("FLAGS", "0")
    + "    libc.sync_file_range(fd, ctypes.c_long(place << 13), ctypes.c_long(4096), 7)\n"
    + END
)
READER = """
import mmap, os, sys
fd, data = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096)
while True:
    for place in range(4096):
        os.preadv(fd, [data], place << 12)
"""


@dataclass(frozen=True)
class SlowDisk:
    path: str
    teardown: ExitStack

    def set(self, name: str, value: str) -> None:
        set_queue(self.path, name, value, self.teardown)


@pytest.fixture
def slow() -> Iterator[SlowDisk]:
    with ExitStack() as stack:
        image = Path(stack.enter_context(TemporaryDirectory(dir="/dev/shm")), "image")
        with image.open("wb") as file:
            file.truncate(64 << 20)
        serve_slowly(image, SERVICE_S, stack)
        found = subprocess.run(
            ["losetup", "--find", "--show", image], capture_output=True, text=True, check=False
        )
        if found.returncode:
            pytest.skip(f"no loop device: {found.stderr.strip()}")
        loop = found.stdout.strip()
        stack.callback(subprocess.run, ["losetup", "--detach", loop], check=True)
        disk = SlowDisk(loop, stack)
        disk.set("write_cache", "write through")
        disk.set("wbt_lat_usec", "0")
        yield disk


@dataclass(frozen=True)
class Found:
    """ns of all writes together, and the lines that tell of limits.

    ``asleep``: in the kernel's functions that wait for a request, by its own stacks.
    """

    total: int
    waited: int
    asleep: int
    others: int
    elapsed: int
    limits: tuple[str, ...]
    frozen: tuple[str, ...]


def run(disk: SlowDisk, program: str, place: Path, functions: set[str]) -> Found:
    recording = place / f"recording-{time.monotonic_ns()}"
    done = iostrata("record", "--why", "-o", str(recording), "--", sys.executable, "-c", program,
                    disk.path, str(WRITERS), str(WRITES))  # fmt: skip
    good(done.returncode, done.stderr)
    breakdown = analyse(open_recording(recording))
    assert len(breakdown.writes) == WRITERS * WRITES
    rows = {
        layer.name: int(times.sum())
        for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True)
    }
    (trace,) = open_recording(recording).traces()
    wanted = [key for key, names in trace.facts.stacks.items() if functions & set(names)]
    sleeps = trace.points["sched_resume"].integers("stack", "off_ns", "wake_ns")
    slept = np.isin(sleeps["stack"], wanted) & (sleeps["wake_ns"] > 0)
    return Found(
        total=int(breakdown.writes.latency_ns.sum()),
        waited=rows.get("block.Q2G", 0),
        asleep=int((sleeps["wake_ns"] - sleeps["off_ns"])[slept].sum()),
        others=sum(
            ns for row, ns in rows.items() if row != "block.Q2G" and not row.startswith("device.")
        ),
        elapsed=int(breakdown.writes.end_ns.max() - breakdown.writes.begin_ns.min()),
        limits=tuple(
            gap.layer for gap in breakdown.quality.not_observed if gap.layer.startswith("limits")
        ),
        frozen=tuple(gap.reason for gap in breakdown.quality.not_observed if "frozen" in gap.layer),
    )


def waits(disk: SlowDisk, program: str, place: Path, functions: set[str]) -> Found:
    """What was found, as soon as the kernel hid no point from it: no sleep, and no request."""
    for _ in range(TRIES):
        found = run(disk, program, place, functions)
        if agrees := 0.95 * found.asleep <= found.waited <= 1.02 * found.asleep:
            break
    assert found.asleep > 0.2 * found.total, found
    assert agrees, found
    return found


def is_free(disk: SlowDisk, program: str, place: Path, functions: set[str]) -> None:
    found = run(disk, program, place, functions)
    assert found.waited <= 0.02 * found.total, found
    assert not found.limits


def test_no_request_is_free(slow: SlowDisk, tmp_path: Path) -> None:
    """No more than so few have one at any time: all others wait for theirs, or for a CPU."""
    functions = {"blk_mq_get_tag"}
    is_free(slow, DIRECT, tmp_path, functions)
    slow.set("nr_requests", "4")
    found = waits(slow, DIRECT, tmp_path, functions)
    assert found.waited >= 0.95 * (found.total - 4 * found.elapsed - found.others), found
    assert not found.limits


def test_wbt_holds_back_what_the_page_cache_writes(slow: SlowDisk, tmp_path: Path) -> None:
    """It does where reads take longer than they may."""
    reader = subprocess.Popen([sys.executable, "-c", READER, slow.path])
    slow.teardown.callback(reader.wait)
    slow.teardown.callback(reader.kill)
    is_free(slow, CACHED, tmp_path, {"rq_qos_wait"})
    slow.set("wbt_lat_usec", "1000")
    time.sleep(5 * SERVICE_S + 0.5)
    found = waits(slow, CACHED, tmp_path, {"rq_qos_wait"})
    assert found.limits == ("limits by wbt",)


def test_a_frozen_queue_is_told_of(slow: SlowDisk, tmp_path: Path) -> None:
    """Nobody is let in until all that is in it is done, and the setting is changed."""
    setting = Path("/sys/block", Path(slow.path).name, "queue/nr_requests")
    over = threading.Event()

    def change() -> None:
        for count in cycle(("64", "128")):
            if over.wait(SERVICE_S):
                return
            setting.write_text(count)

    slow.set("nr_requests", "128")
    slow.set("wbt_lat_usec", "75000")
    changing = threading.Thread(target=change)
    changing.start()
    try:
        found = waits(slow, DIRECT, tmp_path, {"__bio_queue_enter"})
    finally:
        over.set()
        changing.join()
    (told,) = found.frozen
    assert told.startswith(f"what froze {Path(slow.path).name}, for ")
    assert not found.limits
