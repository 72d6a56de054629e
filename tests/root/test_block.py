# SPDX-License-Identifier: Apache-2.0
"""Bios that the kernel splits and merges, against what bpftrace saw of their requests."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from tests.root.conftest import iostrata, loop_device, set_queue

SIZE, LIMIT_KIB, COUNT = 512 << 10, 128, 20
WRITES = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_DSYNC | int(sys.argv[2]))
data = mmap.mmap(-1, int(sys.argv[3]))
for number in range(int(sys.argv[4])):
    os.pwrite(fd, data, (number + 1) * int(sys.argv[3]))
"""
ORACLE = """
BEGIN { printf("begun\\n"); }
tracepoint:block:block_rq_issue /args->dev == $1/
{ printf("issue %llu %llu %u\\n", nsecs, args->sector, args->nr_sector); }
tracepoint:block:block_rq_complete /args->dev == $1/
{ printf("complete %llu %llu %u\\n", nsecs, args->sector, args->nr_sector); }
tracepoint:workqueue:workqueue_execute_start
{ printf("work %llu %d %s\\n", nsecs, tid, ksym(args->function)); }
tracepoint:sched:sched_waking
/strncmp(args->comm, "kworker", 7) == 0 || strncmp(args->comm, "ksoftirqd", 9) == 0/
{ if (args->pid != tid) { printf("wake %llu %d 0\\n", nsecs, args->pid); } }
tracepoint:sched:sched_switch
/strncmp(args->prev_comm, "kworker", 7) == 0 || strncmp(args->prev_comm, "ksoftirqd", 9) == 0/
{ printf("%s %llu %d 0\\n", args->prev_state == 0 ? "wake" : "sleep", nsecs, args->prev_pid); }
tracepoint:sched:sched_switch
/strncmp(args->next_comm, "kworker", 7) == 0 || strncmp(args->next_comm, "ksoftirqd", 9) == 0/
{ printf("run %llu %d %s\\n", nsecs, args->next_pid, args->next_comm); }
"""
NO_SECTOR = str(2**64 - 1)
Stretches = list[tuple[int, int]]


@pytest.fixture
def limited() -> Iterator[str]:
    """A loop device over memory, so the lowest there is, which takes no more than 128 KiB."""
    place = Path(f"/dev/shm/iostrata-test-{os.getpid()}")
    with contextlib.ExitStack() as teardown:
        teardown.callback(place.unlink, missing_ok=True)
        loop = loop_device(place, (COUNT + 1) * SIZE, teardown, direct=False)
        set_queue(loop, "max_sectors_kb", str(LIMIT_KIB), teardown)
        yield loop


@contextlib.contextmanager
def bpftrace(device_key: int, output: Path) -> Iterator[None]:
    with output.open("w") as file:
        command = ["bpftrace", "-B", "line", "-e", ORACLE, str(device_key)]
        oracle = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while "begun" not in output.read_text():
                if oracle.poll() is not None or time.monotonic() > deadline:
                    pytest.skip("bpftrace does not run here")
                time.sleep(0.1)
            yield
            time.sleep(0.5)
        finally:
            oracle.terminate()
            oracle.wait(timeout=60)


def stretches(output: Path) -> tuple[Stretches, Stretches, Stretches]:
    """When requests were with the device, those with data and the flushes; waits for a CPU.

    The request that flushes is issued with sector 0 and completed with none; the requests that
    waited for it are completed after it once more, with no data. The waits are those of the
    loop device's workers and of who completes, whose requests are not with the device then.
    """
    begun: dict[str, int] = {}
    runnable: dict[str, int] = {}
    data: Stretches = []
    flushes: Stretches = []
    workers: set[str] = set()
    waits: list[tuple[str, int, int]] = []
    lines = [line.split() for line in output.read_text().splitlines() if line.count(" ") == 3]
    for point, nsecs, of, what in sorted(lines, key=lambda line: int(line[1])):
        now = int(nsecs)
        if point == "wake":
            runnable.setdefault(of, now)
        elif point == "work":
            workers.update([of] if what.startswith("loop_") else [])
        elif point == "run":
            waits.append((of, runnable.pop(of, now), now))
            workers.update([of] if what.startswith("ksoftirqd") else [])
        elif point == "sleep":
            runnable.pop(of, None)
        elif point == "issue":
            begun[NO_SECTOR if what == "0" else of] = now
        elif of in begun:
            (flushes if of == NO_SECTOR else data).append((begun.pop(of), now))
    assert workers
    return data, flushes, [(begin, end) for of, begin, end in waits if of in workers]


def union(stretches: Stretches, begin: int, end: int) -> int:
    total, since = 0, begin
    for first, last in sorted(stretches):
        until = min(last, end)
        total += max(until - max(first, since), 0)
        since = max(since, until)
    return total


def row(breakdown: Breakdown, name: str) -> list[int]:
    times = [
        times
        for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True)
        if layer.name == name
    ]
    assert len(times) == 1, name
    return [int(time) for time in times[0]]


def near(ours_ns: int, truth_ns: int, waited_ns: int) -> bool:
    """Whether ours is the device's time, or less by no more than threads waited for a CPU."""
    slack = 0.1 * truth_ns + 20_000
    return truth_ns - waited_ns - slack <= ours_ns <= truth_ns + slack


@pytest.mark.skipif(not shutil.which("bpftrace"), reason="bpftrace is not installed")
@pytest.mark.parametrize("direct", [True, False], ids=["split", "merged"])
def test_a_write_has_all_its_requests(limited: str, tmp_path: Path, direct: bool) -> None:
    """Direct ones are split into four; of the page cache's, one for each page, 32 are merged."""
    number = Path(limited).stat().st_rdev
    key, output = os.major(number) << 20 | os.minor(number), tmp_path / "oracle"
    recording = tmp_path / "recording"
    flags = str(os.O_DIRECT if direct else 0)
    with bpftrace(key, output):
        done = iostrata(
            "record", "-o", str(recording), "--",
            sys.executable, "-c", WRITES, limited, flags, str(SIZE), str(COUNT),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    breakdown = analyse(open_recording(recording))
    assert len(breakdown.writes) == COUNT
    assert not breakdown.quality.lost
    assert breakdown.quality.ties["time"] == 0
    data, flushes, waits = stretches(output)
    spans = list(
        zip(breakdown.writes.begin_ns.tolist(), breakdown.writes.end_ns.tolist(), strict=True)
    )
    # Some machines' kernels tell no tool of a tracepoint while certain tasks have a CPU.
    seen = [
        number
        for number, (begin, end) in enumerate(spans)
        if sum(begin <= first and last <= end for first, last in data) == SIZE // (LIMIT_KIB << 10)
        and any(begin <= first and last <= end for first, last in flushes)
    ]
    assert len(seen) >= COUNT // 2
    for name, theirs in (("device.data", data), ("device.flush", flushes)):
        ours = row(breakdown, name)
        compared = [
            (ours[number], union(theirs, *spans[number]), union(waits, *spans[number]))
            for number in seen
        ]
        # Each tool's probe takes its time before or after the other's is hit; a hypervisor may
        # take the CPU away in between, though not often.
        assert sum(not near(*one) for one in compared) <= COUNT // 10, compared
        assert statistics.median(ours - truth for ours, truth, _ in compared) <= 5_000
    unseen = sum(sleeps.time_ns for sleeps in breakdown.quality.unseen) * COUNT
    left = breakdown.residual_ns.sum() - unseen
    assert left <= 0.01 * breakdown.writes.latency_ns.sum(), breakdown.quality


DISCARDS = """
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_DSYNC)
os.pwrite(fd, bytes(4096), 0)
for number in range(5):
    fcntl.ioctl(fd, 0x1277, struct.pack("QQ", (number + 1) << 20, 1 << 20))
"""
DISCARD = 3


def test_discards_are_recorded(limited: str, tmp_path: Path) -> None:
    """A file system mounted with discard waits for them: ext4's worker that ends an append."""
    recording = tmp_path / "recording"
    done = iostrata("record", "-o", str(recording), "--", sys.executable, "-c", DISCARDS, limited)
    assert done.returncode == 0, done.stderr
    (trace,) = open_recording(recording).traces()
    for point in ("block_rq_issue", "block_rq_complete"):
        requests = trace.points[point].integers("flags", "size_bytes")
        mine = requests["flags"] & 0xFF == DISCARD
        assert requests["size_bytes"][mine].sum() == 5 << 20, point
