# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: bios that a control group's limit held back in, who had asked for them out.

Whoever hands such a bio on, a thread of the kernel's, did not ask for it. Direct I/O leads to the
request that it is for. Of what is in the page cache, a call waits that is about that file. Of
libaio's request to a disk itself (a store's that has the disk for its own) older recorders do not
tell its key: its place on the disk tells which that was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from iostrata.columns import NEVER, AsOf, Ints, at, one_of, pair_key
from iostrata.stitch.bios import Bios
from iostrata.stitch.chains import Chains
from iostrata.stitch.links import block_of, submissions_in
from iostrata.stitch.opcodes import AIO_READS, AIO_WRITES
from iostrata.stitch.owners import Owners
from iostrata.stitch.pools import Pools
from iostrata.stitch.reads import OPEN_OF_DEVICE
from iostrata.stitch.requests import Requests
from iostrata.stitch.serving import Lines, Service
from iostrata.stitch.taken import handed_at
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window

SECTOR_BYTES: Final = 512
FEW: Final = 8
"""Calls about a file at once that are looked at."""
NOTHING: Final = Service(*np.zeros((4, 0), np.int64))


@dataclass(frozen=True, eq=False)
class Asking:
    """Of each bio who asked for it, and when.

    ``since_ns``: since when a limit had held it back, -1: none did, or that is not told.
    ``piece``: of which that is, where its request tells, -1: as who asked tells. ``handed``: of
    what workers ran without a word (``owner``: the piece, ``tid``: who had handed it over), from
    when until when at the latest.
    """

    tid: Ints
    time_ns: Ints
    since_ns: Ints
    piece: Ints
    handed: Service = NOTHING


def asked_for(window: Window, bios: Bios, owners: Owners, pools: Pools, sleeps: Sleeps) -> Asking:
    held, none = np.flatnonzero(bios.held), np.full(len(bios), -1)
    # What is below another has that one's.
    held = held[(bios.root[held] == held) & (bios.above[held] < 0)] if len(held) else held
    if not len(held):
        return Asking(bios.tid, bios.begin_ns, none, none)
    asking = _at_its_place(window, bios, held)
    # Older recorders do not tell for which request a bio is.
    if "request_key" not in window.trace.points["block_bio_held"].fields:
        return asking
    bio_key, queue_ns = bios.key[held], bios.queue_ns[held]
    piece, since_ns, handed = _by_request(window, owners, pools, bio_key, queue_ns)
    asking.piece[held] = piece
    asking.since_ns[held] = np.where(piece >= 0, since_ns, asking.since_ns[held])
    # So do they not tell of which file its pages are.
    if "inode" in window.trace.points["block_bio_held"].fields:
        rest = held[piece < 0]
        piece, since_ns = _by_file(window, owners, sleeps, bios.key[rest], bios.queue_ns[rest])
        asking.piece[rest] = piece
        asking.since_ns[rest] = np.where(piece >= 0, since_ns, asking.since_ns[rest])
    return replace(asking, handed=handed)


def below_since(bios: Bios, requests: Requests, lines: Lines, sleeps: Sleeps) -> Ints:
    """Since when a limit had held back what a stacked device asked of those below it, -1: none did,
    or that is not told.

    Since it was handed on; of a loop device, since its worker was done with what it had to do, or
    slept until that is complete.
    """
    since = np.where(bios.held_below, bios.handed_ns, -1)
    direct = np.flatnonzero(bios.held & (bios.above >= 0))
    if len(direct):
        work, above = lines.work, bios.above[direct]
        runs = AsOf(work.device_key, work.end_ns)
        run = runs.at_or_after(requests.device_key[above], requests.issue_ns[above])
        run = np.where(at(lines.taken, above) >= 0, at(lines.taken, above), run)
        begin_ns, end_ns = at(work.begin_ns, run), at(work.end_ns, run)
        off_ns = _asleep_since(sleeps, at(work.tid, run), bios.queue_ns[direct])
        slept = (off_ns >= begin_ns) & (off_ns < end_ns)
        since[direct] = np.minimum(np.where(slept, off_ns, end_ns), bios.queue_ns[direct])
    return since


def _by_file(
    window: Window, owners: Owners, sleeps: Sleeps, bio_key: Ints, queue_ns: Ints
) -> tuple[Ints, Ints]:
    """Of bios the pieces that were at their files when they went on, -1: none; since when those
    waited for what a limit held back: no longer than that sleep."""
    told = window.columns("block_bio_held", "bio_key", "inode", "dev")
    event = AsOf(told["bio_key"], told["time_ns"]).at_or_before(bio_key, queue_ns)
    calls = window.columns("syscall", "enter_ns", "inode", "dev", "tid")
    file = pair_key(calls["dev"], calls["inode"])
    wanted = pair_key(at(told["dev"], event), at(told["inode"], event))
    named = (event >= 0) & (at(told["inode"], event) != 0)
    call = _under_way(file, calls["enter_ns"], calls["time_ns"], wanted, queue_ns)
    call = np.where(named, call, -1)
    tid, enter_ns = at(calls["tid"], call), at(calls["enter_ns"], call)
    piece = np.where(call >= 0, owners.find(tid, queue_ns), -1)
    off_ns = _asleep_since(sleeps, tid, queue_ns)
    return piece, np.where(off_ns >= enter_ns, off_ns, queue_ns)


def _asleep_since(sleeps: Sleeps, tid: Ints, time_ns: Ints) -> Ints:
    """Since when each thread slept at a time, -1: it did not."""
    slept = AsOf(sleeps.tid, sleeps.off_ns).at_or_before(tid, time_ns)
    return np.where(at(sleeps.wake_ns, slept) >= time_ns, at(sleeps.off_ns, slept), -1)


def _under_way(keys: Ints, begin_ns: Ints, end_ns: Ints, key: Ints, time_ns: Ints) -> Ints:
    """The last of those of a key to begin that were not over by a time, -1: none among the last
    ``FEW``."""
    begun = AsOf(keys, begin_ns)
    row = begun.at_or_before(key, time_ns)
    for _ in range(FEW):
        over = (row >= 0) & (at(end_ns, row) < time_ns)
        row = np.where(over, begun.at_or_before(key, at(begin_ns, row) - 1), row)
    return np.where(at(end_ns, row) >= time_ns, row, -1)


def _by_request(
    window: Window, owners: Owners, pools: Pools, bio_key: Ints, queue_ns: Ints
) -> tuple[Ints, Ints, Service]:
    """Of bios the pieces whose requests lead to them, -1: none; since when a limit had held them
    back, -1: that is not told; and ``Asking.handed``."""
    pieces = window.pieces
    told = window.columns("block_bio_held", "bio_key", "request_key")
    event = AsOf(told["bio_key"], told["time_ns"]).at_or_before(bio_key, queue_ns)
    key = np.where(event >= 0, at(told["request_key"], event), 0)
    piece = Chains(window, np.flatnonzero(pieces.request_key != 0)).find(key, queue_ns)
    # A write that is linked before a sync is part of that, which has another's key.
    own = np.where(at(pieces.request_key, piece) == key, piece, -1)
    # Whoever submitted it was at it until it went on.
    submitting, runs = owners.submitting, owners.runs
    submitted = AsOf(submitting.piece, submitting.begin_ns).at_or_before(own, queue_ns)
    since = np.where(submitted >= 0, at(submitting.end_ns, submitted), _returned(window, own))
    uring = submissions_in(window, "request_key")
    part = AsOf(uring["request_key"], uring["time_ns"]).at_or_before(key, queue_ns)
    since = np.where(own >= 0, since, at(uring["time_ns"], part))
    # What a worker ran that said nothing of it, it may have been at until none was at anything.
    handed_ns = handed_at(window, key, queue_ns)
    handed = (piece >= 0) & (handed_ns >= 0) & (handed_ns >= at(pieces.begin_ns, piece))
    by_worker = np.flatnonzero(handed)
    run = AsOf(runs.piece, runs.begin_ns).at_or_before(piece[by_worker], queue_ns[by_worker])
    ran = at(runs.begin_ns, run)
    silent = np.flatnonzero((run < 0) | (ran < handed_ns[by_worker]))
    of = by_worker[silent]
    tid, begin = pieces.tid[piece[of]], handed_ns[of]
    ran[silent] = pools.run_by(tid, begin)
    since[by_worker] = ran
    since = np.where((piece >= 0) & (since >= 0), np.minimum(since, queue_ns), -1)
    return piece, since, Service(piece[of], tid, begin, since[of])


def _returned(window: Window, piece: Ints) -> Ints:
    """When the io_submit of each piece's control block returned, -1: it has none. Of several, which
    the call was at when is not told."""
    pieces, returned = window.pieces, window.columns("aio_submit")["time_ns"]
    block = block_of(window, at(pieces.request_key, piece), at(pieces.begin_ns, piece))
    return at(returned, block)


def _at_its_place(window: Window, bios: Bios, held: Ints) -> Asking:
    """One that no other at its place came before since it was asked for, and that was not complete
    yet, is that request's."""
    none = np.full(len(bios), -1)
    # Older recorders do not tell at which place a request was.
    if "offset_bytes" not in window.trace.points["aio_submit"].fields:
        return Asking(bios.tid, bios.begin_ns, none, none.copy())
    told = window.columns("aio_submit", "tid", "enter_ns", "iocb_key", "dev", "open_flags",
                          "opcode", "offset_bytes")  # fmt: skip
    of_disk = (told["open_flags"] & OPEN_OF_DEVICE) != 0
    of_disk &= one_of(told["opcode"], (*AIO_WRITES, *AIO_READS))
    rows = np.flatnonzero(of_disk)
    asked = {name: column[rows] for name, column in told.items()}
    done = window.columns("aio_complete", "iocb_key")
    found = AsOf(done["iocb_key"], done["time_ns"]).at_or_after(asked["iocb_key"], asked["time_ns"])
    end_ns = np.where(found >= 0, at(done["time_ns"], found), NEVER)
    place = pair_key(bios.device_key, bios.sector)
    request = AsOf(
        pair_key(asked["dev"], asked["offset_bytes"] // SECTOR_BYTES), asked["enter_ns"]
    ).at_or_before(place[held], bios.begin_ns[held])
    before = AsOf(place, bios.begin_ns).at_or_before(place[held], bios.begin_ns[held] - 1)
    mine = (request >= 0) & (at(end_ns, request) >= bios.begin_ns[held])
    mine &= at(bios.begin_ns, before) < at(asked["enter_ns"], request)
    held, request = held[mine], request[mine]
    tid, time_ns, since_ns = bios.tid.copy(), bios.begin_ns.copy(), none
    tid[held] = asked["tid"][request]
    time_ns[held] = asked["enter_ns"][request]
    since_ns[held] = np.minimum(asked["time_ns"][request], bios.begin_ns[held])
    return Asking(tid, time_ns, since_ns, np.full(len(bios), -1))
