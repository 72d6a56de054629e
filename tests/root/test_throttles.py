# SPDX-License-Identifier: Apache-2.0
"""Limits of control groups on this kernel: what they take is found in their rows."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iostrata import library
from iostrata.analysis import analyse
from iostrata.analysis.prepared import prepare
from iostrata.analysis.stopped import Stop, stops_of
from iostrata.columns import Union, columns_of, distinct, one_of, order_of, pair_key
from iostrata.recording import open_recording
from tests.root.conftest import iostrata, loop_device, remove_group, set_queue
from tests.root.test_aio import compiled
from tests.root.test_loop_devices import hits_of
from tests.root.test_loop_devices import recorded as hits_recorded
from tests.root.test_queue_limits import SERVICE_S, SlowDisk, slow
from tests.root.test_record import good, unseen_ns
from tests.root.test_uring import requests

__all__ = ["requests", "slow"]

GROUPS = Path("/sys/fs/cgroup")
WRITES = 12
# So few that a busy machine is no matter: what else a write takes is time that it need not wait.
PER_SECOND = 4
LONG_NS = 50_000_000
"""Longer than a busy machine's others keep somebody from a CPU, mostly."""

# What was written before is written again, past the cache: a request each, and maybe a flush.
WRITER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT | os.O_DSYNC)
data = mmap.mmap(-1, 4096)
for number in range(int(sys.argv[2])):
    os.pwrite(fd, data, number % 8 * 4096)
"""


@pytest.fixture
def limited(disk: Path) -> Iterator[Path]:
    with limited_to(disk, "w") as group:
        yield group


@pytest.fixture
def limited_in_reads(disk: Path) -> Iterator[Path]:
    with limited_to(disk, "r") as group:
        yield group


@contextlib.contextmanager
def limited_to(disk: Path, what: str, unit: str = "iops", rate: int = PER_SECOND) -> Iterator[Path]:
    """A group that may write, or read, so often or much a second that disk, or the one that a
    directory is on, by either version's file."""
    status = disk.stat()
    device = status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev
    whole = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    if (whole / "partition").exists():
        whole = whole.parent
    number = (whole / "dev").read_text().strip() if (whole / "dev").exists() else ""
    first, second = GROUPS / "blkio", GROUPS
    group = (first if first.is_dir() else second) / f"iostrata-limited-{os.getpid()}"
    if not number:
        pytest.skip("the directory is on no block device")
    try:
        if not first.is_dir():
            (second / "cgroup.subtree_control").write_text("+io")
        group.mkdir()
        if first.is_dir():
            name = {"w": "write", "r": "read"}[what]
            limit = group / f"blkio.throttle.{name}_{unit}_device"
            limit.write_text(f"{number} {rate}")
        else:
            (group / "io.max").write_text(f"{number} {what}{unit}={rate}")
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        pytest.skip(f"no limit can be set on {number}: {error}")
    try:
        yield group
    finally:
        remove_group(group)


def recorded(file: Path, writes: int, group: Path | None = None) -> dict[str, Any]:
    writer = (sys.executable, "-c", WRITER, str(file), str(writes))
    join = f'echo $$ > {group}/cgroup.procs; exec "$@"'
    before = ("sh", "-c", join, "sh") if group else ()
    done = iostrata("run", "--json", "-", "--", *before, *writer)
    good(done.returncode, done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_what_a_limit_of_writes_takes(disk: Path, limited: Path) -> None:
    """A limit lets a request go so long after the one before, whatever that took. It holds back all
    of that time but what the writer and, once it is let go, the disk need: how long the disk takes
    is no matter then, nor is the writer, whose time is little of it."""
    free = recorded(disk / "file", WRITES)
    slow = recorded(disk / "file", WRITES, limited)
    rows = {row["layer"]: row["mean_ns"] for row in slow["layers"]}
    let_go = sum(ns for row, ns in rows.items() if row.startswith(("block.", "device.")))
    assert rows["throttle.io"] >= 0.9e9 / PER_SECOND, rows
    let_go += rows.get("wakeup.runqueue", 0) + unseen_ns(slow)
    assert rows["throttle.io"] >= 0.95 * (slow["total_ns"]["mean"] - let_go), rows
    (kept,) = [row["behind"] for row in slow["layers"] if row["layer"] == "throttle.io"]
    limit = {"process": "io.max", "cgroup": f"/{limited.name}"}
    named = sum(part["mean_ns"] for part in kept if limit.items() <= part.items())
    assert named >= 0.95 * rows["throttle.io"], kept
    assert not [row for row in free["layers"] if row["layer"].startswith("throttle")]


def test_what_a_limit_of_a_disk_takes_below_a_loop_device(disk: Path, limited: Path) -> None:
    with ExitStack() as teardown:
        loop = loop_device(disk / "image", 1 << 20, teardown)
        # What it has on the disk already is no more than written.
        subprocess.run(["dd", "if=/dev/zero", f"of={loop}", "bs=64k", "oflag=direct"],
                       capture_output=True, check=False)  # fmt: skip
        slow = recorded(Path(loop), WRITES, limited)
    rows = {row["layer"]: row["mean_ns"] for row in slow["layers"]}
    assert rows["throttle.io"] >= 0.9e9 / PER_SECOND, rows
    let_go = sum(ns for row, ns in rows.items() if row.startswith(("block.", "device.")))
    let_go += rows.get("wakeup.runqueue", 0) + unseen_ns(slow)
    assert rows.get("block.stacked", 0) <= 0.05 * slow["total_ns"]["mean"], rows
    assert rows["throttle.io"] >= 0.95 * (slow["total_ns"]["mean"] - let_go), rows


# Threads of a group that has a limit, each of which appends to a file of its own.
APPENDERS = """
import os, sys, threading
directory, writes = sys.argv[1], int(sys.argv[2])
def append(number):
    fd = os.open(f"{directory}/{number}", os.O_RDWR | os.O_CREAT)
    for each in range(writes):
        os.pwrite(fd, bytes(8192), each * 8192)
        os.fdatasync(fd)
threads = [threading.Thread(target=append, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_what_a_limit_holds_of_who_has_the_lock_that_a_loop_device_s_workers_wait_for(
    disk: Path,
) -> None:
    """What is not aligned to the blocks below is written one after the other; the workers, of the
    group and of the journal's thread, wait for each other's, which the limit holds."""
    with ExitStack() as teardown:
        node = loop_device(disk / "image", 64 << 20, teardown)
        if not int(Path(f"/sys/block/{Path(node).name}/loop/dio").read_text()):
            pytest.skip("no direct I/O to the file below")
        made = ("mkfs.ext4", "-q", "-b", "1024", "-E", "lazy_itable_init=0,lazy_journal_init=0")
        subprocess.run([*made, node], check=True)
        mounted = disk / "mounted"
        mounted.mkdir()
        subprocess.run(["mount", node, str(mounted)], check=True)
        teardown.callback(subprocess.run, ["umount", str(mounted)], check=True)
        group = teardown.enter_context(limited_to(disk, "w", "iops", 50))
        join = ("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh")
        command = (sys.executable, "-c", APPENDERS, str(mounted), "8")
        done = iostrata("run", "--json", "-", "--", *join, *command)
    good(done.returncode, done.stderr)
    found = json.loads(done.stdout)
    rows, mean = {row["layer"]: row for row in found["layers"]}, found["total_ns"]["mean"]
    let_go = sum(
        row["mean_ns"] for name, row in rows.items() if name.startswith(("device.", "wakeup."))
    )
    held = rows["throttle.io"]
    assert rows["block.stacked"]["mean_ns"] <= 0.05 * mean, rows
    assert held["mean_ns"] >= 0.9 * (mean - let_go - unseen_ns(found)), rows
    limit = {"process": "io.max", "cgroup": f"/{group.name}"}
    named = sum(part["mean_ns"] for part in held["behind"] if limit.items() <= part.items())
    assert named >= 0.95 * held["mean_ns"], held


# A process that has a limit writes synchronously; one that has none syncs meanwhile.
SYNCER = """
import mmap, os, sys, time
path, group, each = sys.argv[1], sys.argv[2], int(sys.argv[3])
if not os.fork():
    with open(group + "/cgroup.procs", "w") as file:
        file.write("0")
    fd = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
    data = mmap.mmap(-1, each)
    for number in range(8):
        os.pwrite(fd, data, number * each)
    os._exit(0)
fd = os.open(path, os.O_RDWR)
time.sleep(0.3)
for number in range(4):
    os.fdatasync(fd)
    time.sleep(0.05)
os.wait()
"""


def test_what_a_flush_waits_for_another_s_data_below_a_loop_device(disk: Path) -> None:
    """A disk begins no flush while it has data that one is for."""
    each = 1 << 17
    with ExitStack() as teardown:
        node = loop_device(disk / "image", 8 * each, teardown)
        subprocess.run(["losetup", "--direct-io=on", node], check=False)
        if not int(Path(f"/sys/block/{Path(node).name}/loop/dio").read_text()):
            pytest.skip("no direct I/O to the file below")
        subprocess.run(["dd", "if=/dev/zero", f"of={node}", "bs=64k", "oflag=direct"],
                       capture_output=True, check=False)  # fmt: skip
        group = teardown.enter_context(limited_to(disk, "w", "bps", 2 * each))
        command = (sys.executable, "-c", SYNCER, node, str(group), str(each))
        done = iostrata("record", "--quiet", "-o", str(disk / "recording"), "--", *command)
    good(done.returncode, done.stderr)
    found = analyse(open_recording(disk / "recording"))
    names, codes = found.writes.names["method"], found.writes.codes["method"]
    syncs = np.flatnonzero(codes == names.index("fdatasync"))
    rows = {
        layer.row: int(times[syncs].sum())
        for layer, times in zip(found.layers, found.time_ns, strict=True)
    }
    # Each waits for what is left of the half second of a write.
    assert rows["throttle.io"] >= len(syncs) * 0.1e9, rows
    assert rows["block.Q2D"] <= 0.1 * rows["throttle.io"], rows


def test_where_reads_through_the_page_cache_that_a_limit_held_back_came_from(disk: Path) -> None:
    """From the disk, whoever had asked for it."""
    file = disk / "file"
    file.write_bytes(bytes(1 << 20))
    reader = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.fsync(fd)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
with open(sys.argv[2] + "/cgroup.procs", "w") as file:
    file.write("0")
for number in range(6):
    os.pread(fd, 4096, number * 131072)
"""
    with limited_to(disk, "r") as group:
        command = (sys.executable, "-c", reader, str(file), str(group))
        output = ("-o", str(disk / "recording"))
        done = iostrata("record", "--quiet", *output, "--op", "read", "--", *command)
    good(done.returncode, done.stderr)
    reads = library.open(disk / "recording").analyse("read").writes
    mine = reads.codes["file"] == reads.names["file"].index(str(file))
    served = [reads.names["served"][code] for code in reads.codes["served"][mine].tolist()]
    assert served[1:] == ["device behind a limit"] * 5, served


# Each larger than its disk takes at once: so many parts.
PARTS, PART = 8, 128 << 10
LARGE = """
import mmap, os, sys
flags, data = os.O_RDWR | os.O_DIRECT, mmap.mmap(-1, int(sys.argv[2]))
do = os.preadv if sys.argv[3] == "r" else os.pwritev
fd = os.open(sys.argv[1], flags if sys.argv[3] == "r" else flags | os.O_DSYNC)
with open(sys.argv[4] + "/cgroup.procs", "w") as file:
    file.write("0")
for number in range(3):
    do(fd, [data], number * len(data))
"""


def of_large(node: Path, what: str, group: Path) -> tuple[float, dict[str, float]]:
    """The time that each took, and how much of it each row has."""
    command = (sys.executable, "-c", LARGE, str(node), str(PARTS * PART), what, str(group))
    past_cache = ("--op", "direct") if what == "r" else ()
    done = iostrata("run", *past_cache, "--json", "-", "--", *command)
    good(done.returncode, done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    rows = {row["layer"]: row["mean_ns"] for row in document["layers"]}
    return document["total_ns"]["mean"], rows


@pytest.mark.parametrize("what", ["w", "r"])
def test_what_a_limit_takes_of_each_part_of_what_its_disk_does_not_take_at_once(
    what: str, disk: Path
) -> None:
    """Each counts as a request: what is left is held back anew (since Linux 5.18)."""
    with ExitStack() as teardown:
        node = loop_device(disk / "image", 3 * PARTS * PART, teardown)
        set_queue(node, "max_sectors_kb", str(PART >> 10), teardown)
        group = teardown.enter_context(limited_to(Path(node), what, rate=4 * PER_SECOND))
        total, rows = of_large(Path(node), what, group)
    if total < (PARTS - 1) * 1e9 / (4 * PER_SECOND):
        pytest.skip("this kernel holds the first part back only")
    let_go = sum(ns for row, ns in rows.items() if row.startswith(("block.st", "device.")))
    let_go += rows.get("wakeup.runqueue", 0)
    assert rows["throttle.io"] >= 0.95 * (total - let_go), rows


@pytest.mark.parametrize("parts", [1, PARTS])
def test_what_looks_at_each_request_does_so_where_one_is_split(parts: int, disk: Path) -> None:
    """Kernel threads get requests all the while, on a loop device of a file that is cached."""
    with ExitStack() as teardown:
        node = loop_device(disk / "image", 3 * parts * PART, teardown)
        set_queue(node, "max_sectors_kb", str(PART >> 10), teardown)
        # No group's directory: its file says nothing to anybody.
        writer = (sys.executable, "-c", LARGE, node, str(parts * PART), "w", str(disk))
        done = hits_recorded(disk / "recording", *writer)
    good(done.returncode, done.stderr)
    hits = hits_of(disk / "recording", "block_rest_got")
    assert (hits > 0) == (parts > 1)


def test_what_a_slow_disk_takes_of_parts_that_a_limit_let_go_is_no_limit_s(slow: SlowDisk) -> None:
    """A limit of bytes holds back the whole of it only, and its worker hands on all parts; each
    waits for those before, as few may be under way."""
    whole, node = PARTS * PART, Path(slow.path)
    slow.set("max_sectors_kb", str(PART >> 10))
    slow.set("nr_requests", "4")
    with limited_to(node, "w", "bps", 10 * whole) as group:
        total, rows = of_large(node, "w", group)
    assert total >= PARTS * SERVICE_S * 1e9
    assert 0 < rows["throttle.io"] <= total - 0.9 * PARTS * SERVICE_S * 1e9, rows
    assert rows["throttle.io"] <= 1.1 * 1e9 / 10, rows


# Parts of blocks that are not in the page cache: each has to be read before it is changed.
CHANGER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DSYNC)
os.pwrite(fd, bytes(1 << 22), 0)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
with open(sys.argv[2] + "/cgroup.procs", "w") as file:
    file.write("0")
for number in range(6):
    os.pwrite(fd, b"abc", 100 + (6 - number) * 600_000)
"""


def test_what_a_limit_of_reads_takes_of_writes(disk: Path, limited_in_reads: Path) -> None:
    command = (sys.executable, "-c", CHANGER, str(disk / "file"), str(limited_in_reads))
    done = iostrata("run", "--json", "-", "--", *command)
    good(done.returncode, done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    rows = {row["layer"]: row["mean_ns"] for row in document["layers"]}
    # Of seven writes the first is free, and so is the first read.
    assert rows["throttle.io"] >= 0.9 * 5 / 7 * 1e9 / PER_SECOND, rows
    assert document["residual"]["share"] <= 0.05, rows


@pytest.mark.parametrize("mode", ["direct", "polled-direct"])
def test_what_a_limit_takes_of_requests_that_nobody_sleeps_for(
    mode: str, disk: Path, limited: Path, requests: Path
) -> None:
    """Four at once, by io_uring: each waits its turn, and is collected with the last of all. A
    thread of the kernel's (SQPOLL) may submit them, and look for more meanwhile."""
    file = disk / "requests"
    with file.open("wb") as made:
        made.write(bytes(4 * 8192))
        os.fsync(made.fileno())
    of_requests(limited, str(requests), str(file), mode, "3")


@pytest.mark.parametrize("at_once", [False, True])
def test_what_a_limit_takes_of_requests_to_a_disk_itself(
    disk: Path, tmp_path: Path, requests: Path, *, at_once: bool
) -> None:
    """Nobody but the kernel's worker that hands them on queues anything there. Libaio writes all
    that one call submits through the page cache in that, the program's only one."""
    with ExitStack() as teardown:
        node = Path(loop_device(disk / "image", 4 * 8192, teardown))
        limited = teardown.enter_context(limited_to(node, "w"))
        if at_once:
            of_requests(limited, str(compiled("one_call", tmp_path)), str(node), "3")
        else:
            of_requests(limited, str(requests), str(node), "direct", "3")


def of_requests(limited: Path, *command: str) -> None:
    join = f'echo $$ > {limited}/cgroup.procs; exec "$@" >&2'
    done = iostrata("run", "--json", "-", "--", "sh", "-c", join, "sh", *command)
    good(done.returncode, done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    rows = {row["layer"]: row["mean_ns"] for row in document["layers"]}
    assert rows["throttle.io"] >= 0.9e9 / PER_SECOND, rows
    let_go = sum(rows.get(row, 0) for row in ("wakeup.reap", "wakeup.runqueue"))
    let_go += sum(ns for row, ns in rows.items() if row.startswith(("block.", "device.")))
    assert rows["throttle.io"] >= 0.95 * (document["total_ns"]["mean"] - let_go), rows


# Each says how long its writes took by its own clock.
WRITERS = """
import os, sys, time
data, took = bytes(4096), 0
with open(sys.argv[2] + "/cgroup.procs", "w") as file:
    file.write("0")
for child in range(3):
    if not os.fork():
        break
fd = os.open(sys.argv[1] + str(os.getpid()), os.O_RDWR | os.O_CREAT | os.O_DSYNC)
for number in range(100):
    begin = time.monotonic_ns()
    os.pwrite(fd, data, number * 4096)
    took += time.monotonic_ns() - begin
os.write(1, b"%d\\n" % took)
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
"""


@pytest.fixture
def short_of_cpu() -> Iterator[Path]:
    """A group that may have a twentieth of a CPU, by either version's file."""
    first, second = GROUPS / "cpu", GROUPS
    group = (first if first.is_dir() else second) / f"iostrata-quota-{os.getpid()}"
    try:
        if not first.is_dir():
            (second / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        if first.is_dir():
            (group / "cpu.cfs_quota_us").write_text("5000")
        else:
            (group / "cpu.max").write_text("5000 100000")
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        pytest.skip(f"no quota can be set: {error}")
    yield group
    remove_group(group)


def test_what_a_quota_takes_is_in_the_latency_or_told(disk: Path, short_of_cpu: Path) -> None:
    """Since Linux 6.18 a quota stops who wrote when its call is over."""
    directory = disk / "recording"
    writers = (sys.executable, "-c", WRITERS, str(disk / "file"), str(short_of_cpu))
    done = iostrata("record", "--quiet", "-o", str(directory), "--", *writers)
    good(done.returncode, done.stderr)
    own_ns = sum(map(int, done.stdout.split()))
    found = prepare(open_recording(directory))
    stops_ns = sum(int(stops_of(top, Stop.QUOTA)[0].sum()) for top in found.tops)
    latency_ns = int(found.writes.latency_ns.sum())
    # It stops them between one write's clock and the next one's, too.
    assert latency_ns <= own_ns <= 1.05 * (latency_ns + stops_ns)
    layers = [gap.layer for gap in analyse(open_recording(directory)).quality.not_observed]
    assert ("CPU quota" in layers) == (stops_ns > own_ns // 50)


def test_what_a_quota_takes_of_workers_is_of_what_waits_for_them(
    disk: Path, short_of_cpu: Path, requests: Path
) -> None:
    """Of no request more than any thread was kept, by the kernel's own account; and a worker that
    has not taken one up is no worker that is busy."""
    directory = disk / "recording"
    join = f'echo $$ > {short_of_cpu}/cgroup.procs; exec "$@"'
    command = ("sh", "-c", join, "sh", str(requests), str(disk / "file"), "direct", "100")
    done = iostrata("record", "--quiet", "-o", str(directory), "--", *command)
    good(done.returncode, done.stderr)
    recording = open_recording(directory)
    (trace,) = map(recording.trace, recording.machines)
    told = columns_of(trace.points["sched_throttled"], "since_ns", "throttled_ns")
    kept = Union(told["since_ns"], told["since_ns"] + told["throttled_ns"])
    if not len(told["time_ns"]):
        pytest.skip("the quota kept nobody")
    found = analyse(recording)
    rows = {layer.row: times for layer, times in zip(found.layers, found.time_ns, strict=True)}
    begin_ns = found.writes.begin_ns.astype(np.int64)
    most_ns = kept.within(begin_ns, begin_ns + found.writes.latency_ns.astype(np.int64))
    nothing = np.zeros(len(most_ns), np.int64)
    quota = rows.get("throttle.cpu", nothing)
    assert (quota <= most_ns).all()
    assert rows.get("wakeup.worker", nothing).sum() <= 0.1 * most_ns.sum()


@contextlib.contextmanager
def moving(group: Path, every_s: float) -> Iterator[None]:
    """All that is in a group is now on one CPU, now on another."""
    cpus, over = sorted(os.sched_getaffinity(0)), threading.Event()
    file = group / ("tasks" if (group / "tasks").exists() else "cgroup.threads")

    def move() -> None:
        turn = 0
        while not over.wait(every_s):
            turn += 1
            for tid in map(int, file.read_text().split()):
                # It may be gone, or the kernel may keep it where it is.
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(tid, {cpus[turn % len(cpus)]})

    mover = threading.Thread(target=move)
    mover.start()
    try:
        yield
    finally:
        over.set()
        mover.join()


@pytest.mark.parametrize("who", [(), ("--who",)])
def test_what_a_quota_takes_of_who_goes_on_at_another_cpu(
    who: tuple[str, ...], disk: Path, short_of_cpu: Path, requests: Path
) -> None:
    """A thread that looks for requests all the while (SQPOLL) has a twentieth of a CPU: what it
    waits longer for than a busy machine's others have theirs is the quota's, wherever it goes on.
    Without ``--who``, that is what it is known for at least."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one CPU")
    directory = disk / "recording"
    join = f'echo $$ > {short_of_cpu}/cgroup.procs; exec "$@"'
    command = ("sh", "-c", join, "sh", str(requests), str(disk / "file"), "polled-direct", "20")
    # Less often than a period, so that mostly no wait has two.
    with moving(short_of_cpu, 0.13):
        done = iostrata("record", "--quiet", *who, "-o", str(directory), "--", *command)
    good(done.returncode, done.stderr)
    recording = open_recording(directory)
    (trace,) = map(recording.trace, recording.machines)
    ran = columns_of(trace.points["sched_resume"], "subject_tid", "off_ns", "wake_ns", "cpu")
    told = columns_of(trace.points["sched_throttled"], "subject_tid", "throttled_ns")
    limited = one_of(ran["subject_tid"], distinct(told["subject_tid"]))
    rows = np.flatnonzero(limited & (ran["wake_ns"] == 0))
    rows = rows[order_of(ran["subject_tid"][rows])]
    tid, cpu, on_ns = (ran[name][rows] for name in ("subject_tid", "cpu", "time_ns"))
    waited_ns = on_ns - ran["off_ns"][rows]
    moved = np.append(False, (tid[1:] == tid[:-1]) & (cpu[1:] != cpu[:-1]))
    moved &= waited_ns > LONG_NS
    if not moved.any():
        pytest.skip("the quota kept nobody that went on at another CPU")
    of_wait = one_of(pair_key(told["time_ns"], told["subject_tid"]), pair_key(on_ns, tid)[moved])
    kept_ns = int(told["throttled_ns"][of_wait].sum())
    assert kept_ns >= 0.5 * waited_ns[moved].sum()
    assert kept_ns <= waited_ns[moved].sum()
