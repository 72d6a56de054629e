# SPDX-License-Identifier: Apache-2.0
"""Reads of a client of NFS: its calls take the disk's place, told apart by their files' parts."""

from __future__ import annotations

from dataclasses import dataclass

from iostrata.model import Op
from iostrata.trace.layout import NFS_READ
from tests.reading import O_DIRECT, Reader, reading_world
from tests.stitch.test_direct import analysed
from tests.stitch.test_reads import holds
from tests.stitch.test_reads import served as served_of
from tests.stitch.test_truth import accounts
from tests.synthetic import World, device

MOUNT = device(0, 50)
PAGE = 4096
RPCIOD = 700


@dataclass
class Call:
    begin: int
    sent: int
    reply: int
    end: int


def read_call(world: World, tid: int, begin: int, offset: int, size: int, took: int) -> Call:
    """The client asks for a part of the file 12: queued 900, on its way ``took``, 600 after."""
    one = Call(begin, begin + 900, begin + 900 + took, begin + 900 + took + 600)
    key = world.pointer("task", one.begin, one.end + 1)
    world.emit("nfs_call", one.begin, tid, call_key=key, inode=12, dev=MOUNT, offset_bytes=offset,
               size_bytes=size, stable=0, operation=NFS_READ)  # fmt: skip
    world.emit("rpc_call", one.end, RPCIOD, call_key=key, send_ns=one.sent, ready_ns=one.reply,
               reply_ns=one.reply + 100, xid=begin, connection=1)  # fmt: skip
    return one


def waits(reader: Reader, one: Call) -> None:
    """Asleep from now on until the call has ended; its time is booked to the call's rows."""
    off, wake = reader.now, one.end + 1_000
    reader.now = wake + 2_000
    reader._resume(off, wake, RPCIOD)
    for row, begin, end in (
        ("rpc.queue", one.begin, one.sent),
        ("rpc.call", one.sent, one.reply),
        ("rpc.reply", one.reply, one.end),
        ("wakeup.interrupt", one.end, wake),
        ("wakeup.runqueue", wake, reader.now),
    ):
        reader.account[row] += max(end - max(begin, off), 0)


def test_the_server_readahead_and_the_page_cache() -> None:
    world = reading_world()
    reader = Reader(world, 100, MOUNT, 10_000)
    reader.enter()
    reader.cpu(500)
    own = read_call(world, 100, reader.now, 0, 4 * PAGE, took=200_000)
    ahead = read_call(world, 100, reader.now + 50, 4 * PAGE, 8 * PAGE, took=600_000)
    waits(reader, own)
    reader.cpu(1_000)
    reader.done(0, 4 * PAGE, "server")
    reader.now += 2_000
    reader.enter()
    waits(reader, ahead)
    reader.cpu(1_500)
    reader.done(4 * PAGE, 4 * PAGE, "readahead under way")
    reader.now += 100
    reader.cached(8 * PAGE, 4 * PAGE)
    holds(world, reader)


def test_readahead_that_is_there_at_once_is_not_what_was_waited_for() -> None:
    """Both calls have ended before the reader is let go: its own pages' first."""
    world = reading_world()
    reader = Reader(world, 100, MOUNT, 10_000)
    reader.enter()
    own = read_call(world, 100, reader.now, 0, 4 * PAGE, took=200_000)
    read_call(world, 100, reader.now, 4 * PAGE, 8 * PAGE, took=200_400)
    waits(reader, own)
    reader.done(0, 4 * PAGE, "server")
    holds(world, reader)


def test_what_another_file_is_read_for_is_nobodys_here() -> None:
    """The mount is busy, with a part of the file that the read has no need of."""
    world = reading_world()
    reader = Reader(world, 100, MOUNT, 10_000)
    read_call(world, 300, 9_000, 64 * PAGE, PAGE, took=90_000)
    reader.cached(0, PAGE, duration=4_000)
    holds(world, reader)


def test_past_the_page_cache() -> None:
    """O_DIRECT: all calls that it makes are waited for."""
    world = reading_world()
    reader = Reader(world, 100, MOUNT, 10_000)
    reader.enter()
    read_call(world, 100, reader.now, 0, PAGE, took=100_000)
    last = read_call(world, 100, reader.now, PAGE, PAGE, took=110_000)
    waits(reader, last)
    reader.done(0, 2 * PAGE, "server", flags=O_DIRECT)
    holds(world, reader)
    found = analysed(world, Op.DIRECT)
    assert accounts(found)[100][0]["rpc.call"] == 110_000


def test_a_sleep_without_a_call_is_not_told() -> None:
    """Where no event says what was asked for, as by 9p, nothing is said to have served it."""
    world = reading_world()
    reader = Reader(world, 100, MOUNT, 10_000)
    reader.enter()
    reader.cpu(500)
    reader.sleep(80_000, waker=12345, row=None)
    reader.done(0, PAGE, "not told")
    assert list(served_of(holds(world, reader))) == ["not told"]
