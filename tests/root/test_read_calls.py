# SPDX-License-Identifier: Apache-2.0
"""Reads on the real kernel, held against what the program, the kernel and the disk counted."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

import iostrata as library
from iostrata.columns import integers
from iostrata.model import Breakdown
from iostrata.trace.layout import CALL_READ
from tests.root.conftest import iostrata
from tests.root.test_queue_limits import SERVICE_S, SlowDisk, slow
from tests.root.test_record import good

__all__ = ["slow"]

PAGE = 4096
NO_DISK = "/dev/null"
"""Counts nothing."""

# Says of each page, before it reads it, whether the page cache has it (mincore(2)); and what the
# kernel counted: of this process's calls, and of the disk.
READER = """
import ctypes, json, mmap, os, sys
path, stat, how, places = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
size = os.lseek(os.open(path, os.O_RDONLY), 0, os.SEEK_END)
fd = os.open(path, os.O_RDWR | (os.O_DIRECT if how == "direct" else 0))
os.fsync(fd)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_NORMAL if how == "ahead" else os.POSIX_FADV_RANDOM)
memory = mmap.mmap(fd, size, mmap.MAP_PRIVATE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc, there, data = ctypes.CDLL(None), ctypes.c_ubyte(), mmap.mmap(-1, 4096)
calls, disk = os.open("/proc/self/io", os.O_RDONLY), os.open(stat, os.O_RDONLY)

def counted():
    of_disk = os.pread(disk, 4096, 0).split() or 4 * [0]
    of_calls = dict(line.split(b": ") for line in os.pread(calls, 4096, 0).splitlines())
    return [int(of_calls[b"syscr"]), int(of_disk[0]), int(of_disk[3])]

cached, before = [], counted()
for place in places:
    libc.mincore(ctypes.c_void_p(address + place * 4096), ctypes.c_size_t(1), ctypes.byref(there))
    cached.append(there.value & 1)
    os.preadv(fd, [data], place * 4096)
after = counted()
with open(sys.argv[5], "w") as file:
    json.dump({"cached": cached, "counted": [b - a for a, b in zip(before, after)]}, file)
"""


FILLED = 20
# Fills pages of the second file from the first one, past the page cache, while it reads them all.
FILLER = f"""
import mmap, os, sys
from threading import Thread
source = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
buffer = os.open(sys.argv[2], os.O_RDWR)
size = 4 << 20
os.pwrite(buffer, bytes(size), 0)
memory = memoryview(mmap.mmap(buffer, size))
def fill():
    for place in range(0, {FILLED} * 4096, 4096):
        os.preadv(source, [memory[place:place + 4096]], place)
filler = Thread(target=fill)
filler.start()
while filler.is_alive():
    os.pread(buffer, size, 0)
"""


@dataclass(frozen=True)
class Said:
    """Of each page read, whether it was in memory; how many calls, requests, and their ms."""

    cached: list[int]
    calls: int
    requests: int
    request_ms: int


@dataclass(frozen=True)
class Read:
    """One read of the file: from where, and ns by row."""

    place: int
    served: str
    rows: dict[str, int]
    latency_ns: int
    method: str


@dataclass(frozen=True)
class Found:
    """The reads of the file, in order. ``missing``: so many at most were left out.

    ``unseen``: of so many sleeps this kernel told nobody the end, as some keep their tracepoints
    silent while certain programs have a CPU: such a read cannot be told.
    """

    reads: list[Read]
    missing: int
    unseen: int

    def by_place(self, places: list[int]) -> list[Read | None]:
        """Of each place that was read, in that order; None: it was left out."""
        left = list(self.reads)
        found = [left.pop(0) if left and left[0].place == place else None for place in places]
        assert not left
        assert found.count(None) <= self.missing
        return found


def recorded(file: str, stat: str, how: str, places: list[int], to: Path) -> tuple[Said, Found]:
    """What the reader said, and what was found of the same reads."""
    said = to / "said"
    done = iostrata("record", "-o", str(to / "recording"), "--op", "read", "--", sys.executable,
                    "-c", READER, file, stat, how, json.dumps(places), str(said))  # fmt: skip
    good(done.returncode, done.stderr)
    told = json.loads(said.read_text())
    found = library.open(to / "recording").analyse("read")
    total = found.time_ns.sum(axis=0) + found.residual_ns
    assert total.tolist() == found.writes.latency_ns.tolist()
    return Said(told["cached"], *told["counted"]), of_file(found, file)


def of_file(found: Breakdown, file: str) -> Found:
    reads = found.writes
    names, codes = reads.names, reads.codes
    mine = np.flatnonzero(codes["file"] == names["file"].index(file)).tolist()
    rows = [*(layer.name for layer in found.layers), "unattributed"]
    times = np.vstack([found.time_ns, found.residual_ns])
    return Found(
        [
            Read(
                int(reads.offset_bytes[number]) // PAGE,
                names["served"][codes["served"][number]],
                dict(zip(rows, times[:, number].tolist(), strict=True)),
                int(reads.latency_ns[number]),
                names["method"][codes["method"][number]],
            )
            for number in mine
        ],
        sum(count for why, count in found.left_out.items() if "lost" in why),
        sum(one.count for one in found.quality.unseen),
    )


def told(reads: list[Read | None], unseen: int) -> list[Read]:
    """Those of which it can be told what served them: all but as many as the kernel hid."""
    some = [read for read in reads if read and read.served != "not told"]
    assert sum(read is not None for read in reads) - len(some) <= unseen
    assert len(some) >= 0.8 * len(reads)
    return some


def test_cold_and_warm(disk: Path) -> None:
    """Each read is served from where the kernel says that its page is, and waits accordingly."""
    file = disk / "data"
    file.write_bytes(bytes(256 * PAGE))
    cold = [37 * number % 256 for number in range(40)]
    said, found = recorded(str(file), NO_DISK, "random", cold + cold, disk)
    assert said.cached == 40 * [0] + 40 * [1]
    reads = found.by_place(cold + cold)
    for read in told(reads[:40], found.unseen):
        assert read.served == "device"
        assert read.rows["device.read"] > 0
        assert not read.rows["read.cached"]
    for read in told(reads[40:], 0):
        assert read.served == "page cache"
        assert not read.rows["device.read"]
        assert read.rows["read.cached"] > 0
    # Its own calls, and one of each counter.
    assert said.calls == 80 + 2


def test_a_disk_of_known_service_time(slow: SlowDisk, disk: Path) -> None:
    """As many requests as the disk counted, and as long; what it had served is not asked for."""
    stat = f"/sys/class/block/{Path(slow.path).name}/stat"
    cold = [11 * number for number in range(12)]
    said, found = recorded(slow.path, stat, "random", cold + cold, disk)
    assert said.requests == 12
    reads = found.by_place(cold + cold)
    waited = told(reads[:12], found.unseen)
    assert {read.served for read in waited} == {"device"}
    assert {read.served for read in told(reads[12:], 0)} == {"page cache"}
    took = [read.rows["device.read"] for read in waited]
    assert min(took) >= 0.95e9 * SERVICE_S
    # The disk counts each from when there was a request for it, in whole ms.
    queued = sum(ns for read in waited for row, ns in read.rows.items() if row.startswith("block."))
    counted = said.request_ms * 1e6 * len(waited) / 12
    assert abs(sum(took) + queued - counted) <= 0.1 * counted + queued + 12e6
    assert sum(read.rows["unattributed"] for read in waited) <= 0.02 * sum(took)


def test_readahead_is_told_from_what_was_asked_for(slow: SlowDisk, disk: Path) -> None:
    """One page after the other, faster than the disk: most are there, or on their way."""
    stat = f"/sys/class/block/{Path(slow.path).name}/stat"
    said, found = recorded(slow.path, stat, "ahead", list(range(96)), disk)
    reads = found.by_place(list(range(96)))
    some = told(reads, found.unseen)
    served = Counter(read.served for read in some)
    assert set(served) == {"device", "page cache", "readahead under way"}
    # What was not in memory may be there by the time of the read; what was, still is.
    for read, there in zip(reads, said.cached, strict=True):
        assert not there or read is None or read.served == "page cache"
    assert served["device"] <= said.requests < 96
    for read in some:
        assert (read.rows["device.readahead"] > 0) >= (read.served == "readahead under way")
        assert (read.rows["device.read"] > 0) == (read.served == "device")
    took = sum(read.latency_ns for read in some)
    assert sum(read.rows["unattributed"] for read in some) <= 0.02 * took


def test_what_is_read_into_a_file_s_pages_is_no_read_of_that_file(
    slow: SlowDisk, disk: Path
) -> None:
    """O_DIRECT into a mapped file in memory, which another thread reads meanwhile."""
    with NamedTemporaryFile(dir="/dev/shm") as buffer:
        done = iostrata("record", "-o", str(disk / "recording"), "--op", "read", "--",
                        sys.executable, "-c", FILLER, slow.path, buffer.name)  # fmt: skip
        good(done.returncode, done.stderr)
    found = library.open(disk / "recording").analyse("read")
    filled, read = of_file(found, slow.path).reads, of_file(found, buffer.name).reads
    waited = sum(each.rows["device.read"] > 0 for each in filled if each.method == "read_direct")
    assert waited >= 0.8 * FILLED
    assert read
    for each in read:
        assert not [row for row, ns in each.rows.items() if ns and row.startswith("device")]
        assert each.served not in ("device", "readahead under way")


def test_past_the_page_cache(disk: Path) -> None:
    """O_DIRECT asks the device each time."""
    file = disk / "data"
    file.write_bytes(bytes(64 * PAGE))
    places = [5, 9, 5, 9, 33, 5, 9, 5, 9, 33]
    _, found = recorded(str(file), NO_DISK, "direct", places, disk)
    reads = found.by_place(places)
    some = [read for read in reads if read]
    assert {read.method for read in some} == {"read_direct"}
    assert {read.served for read in some} == {"device"}
    # What hides the end of a sleep hides that of its request.
    assert sum(read.rows["device.read"] > 0 for read in some) >= len(some) - found.unseen


def test_without_it_nothing_is_there(disk: Path) -> None:
    """No program of it is attached, and no read is recorded."""
    trace = disk / "recording"
    program = "import os; fd = os.open('data', os.O_RDWR | os.O_CREAT); os.write(fd, b'a'); " \
              "os.fsync(fd); os.pread(fd, 1, 0)"  # fmt: skip
    done = iostrata("record", "-o", str(trace), "--", sys.executable, "-c", program, cwd=disk)
    good(done.returncode, done.stderr)
    (found,) = library.open(trace).traces()
    programs = [bytes(name) for name in found.points["probe"]["program"].tolist()]
    assert any(name.startswith(b"syscall_") for name in programs)
    assert not any(name.startswith(b"read_") for name in programs)
    assert len(found.points["syscall"])
    assert integers(found.points["syscall"]["call"]).max() < CALL_READ
    assert not len(found.points["block_bio_file"])
    refused = iostrata("replay", str(trace), "--op", "read")
    assert refused.returncode == 5
    assert "--op read" in refused.stderr


def test_both_tables(disk: Path) -> None:
    """--op all prints one of the writes, then one of the reads."""
    program = "import os; fd = os.open('data', os.O_RDWR | os.O_CREAT); os.write(fd, b'a'); " \
              "os.fsync(fd); os.pread(fd, 1, 0)"  # fmt: skip
    done = iostrata("run", "--op", "all", "--", sys.executable, "-c", program, cwd=disk)
    good(done.returncode, done.stderr)
    heads = [line for line in done.stdout.splitlines() if " by python" in line]
    assert [line.split(" by ")[0].lstrip("0123456789 ") for line in heads] == [
        "synchronous write", "reads",
    ]  # fmt: skip
    of_reads = done.stdout.index(heads[1])
    assert "us a read" not in done.stdout[:of_reads]
    assert "served from" not in done.stdout[:of_reads]
    assert "served from" in done.stdout[of_reads:]
