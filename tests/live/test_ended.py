# SPDX-License-Identifier: Apache-2.0
"""Ended: what is counted of requests is what is analysed of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from iostrata.live import Latest
from iostrata.live.ended import LENGTHS
from iostrata.stitch import ENGINES, METHODS
from tests.live.test_latest import MACHINE
from tests.synthetic import O_DSYNC, O_SYNC, World, write
from tests.trace.growing import Growing

RWF_DSYNC, FDATASYNC, WAITS, LINKED = 2, 1, 4, 0x40000000
WRITE, FSYNC, SYNC_FILE_RANGE, READ = 23, 3, 8, 22
PWRITE, PREAD, AIO_FSYNC, AIO_FDSYNC = 1, 0, 2, 3
# What each is asked by: opcode, flags of its file, and its own.
OF_URING = {
    "io_uring:open_datasync": [
        (WRITE, O_DSYNC, 0),
        (WRITE, 0, RWF_DSYNC),
        (WRITE, O_DSYNC, LINKED),
    ],
    "io_uring:open_sync": [(WRITE, O_SYNC, 0)],
    "io_uring:fsync": [(FSYNC, 0, 0)],
    "io_uring:fdatasync": [(FSYNC, O_DSYNC, FDATASYNC)],
    "io_uring:sync_file_range": [(SYNC_FILE_RANGE, 0, WAITS)],
    "": [(WRITE, 0, 0), (READ, O_DSYNC, 0), (SYNC_FILE_RANGE, 0, 2)],
}
OF_AIO = {
    "libaio:open_datasync": [(PWRITE, O_DSYNC, 0), (PWRITE, 0, RWF_DSYNC)],
    "libaio:open_sync": [(PWRITE, O_SYNC, 0)],
    "libaio:fsync": [(AIO_FSYNC, 0, 0)],
    "libaio:fdatasync": [(AIO_FDSYNC, O_DSYNC, 0)],
    "": [(PWRITE, 0, 0), (PREAD, O_DSYNC, 0)],
}


@pytest.mark.parametrize("known", [True, False], ids=["file told at once", "later"])
def test_each_request_is_counted_as_what_it_is_analysed_as(tmp_path: Path, *, known: bool) -> None:
    """Whether or not its submission tells its file; and others that have its key are not."""
    world, now, wanted = World(), 1_000_000, Counter[str]()
    world.builder.packet_events = 1
    world.target(100)
    for engine, cases in (("io_uring", OF_URING), ("aio", OF_AIO)):
        of_ring = engine == "io_uring"
        submit = "io_uring_submit_req" if of_ring else "aio_submit"
        key = "request_key" if of_ring else "iocb_key"
        for method, asked in cases.items():
            for opcode, flags, rwf in asked:
                now += 10_000_000
                own = {key: 0x70, "opcode": opcode, "rwf": rwf}
                size = {"size_bytes": 4096} if opcode in (WRITE, READ, PWRITE, PREAD) else {}
                file = {"inode": 12, "dev": 7, "open_flags": flags}
                begin = {} if of_ring else {"enter_ns": now - 100}
                told = file if known or not of_ring else {}
                world.emit(submit, now, 100, **own, **size, **told, **begin)
                begin = {} if of_ring else {"enter_ns": now}
                world.emit(f"{engine}_complete", now + 1_000_000, 100, **own, **file, **begin,
                           result=4096 if size else 0)  # fmt: skip
                wanted[method] += bool(method)
    world.target(100, now + 1_000_000_000)
    growing = Growing(write(world, tmp_path / "source"), tmp_path / "local")
    growing.until(growing.end_ns)
    source = Latest(tmp_path, MACHINE)
    interval = source.interval()
    source.close()
    assert interval
    assert interval.breakdown
    writes = interval.breakdown.writes
    names = [writes.names["method"][code] for code in writes.codes["method"].tolist()]
    assert Counter(names) == +wanted
    labels = [engine + method for engine in ENGINES for method in METHODS]
    assert [labels[kind // LENGTHS] for kind in interval.kinds.tolist()] == names
    counted = Counter[str]()
    for number, kind in interval.ended.items():
        counted[labels[number // LENGTHS]] += kind.calls
    assert counted == +wanted
