# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: reads, and the bios and calls of their files in, which read waited for which out.

A read through the page cache waits for pages, whoever asked the disk (or an NFS server) for
them: itself, an earlier read (readahead), or another thread. Which pages a bio, or a call,
reads is told with it: that is the key. What a read asks for beyond its own pages (readahead),
it does not wait for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    Containing,
    Ints,
    at,
    coded,
    distinct,
    joined,
    one_of,
    overlapping,
    pair_key,
)
from iostrata.stitch.bios import Bios
from iostrata.stitch.calls import FILE_UNKNOWN, Pieces, Reads
from iostrata.stitch.endings import SOON_NS
from iostrata.stitch.owners import Owners
from iostrata.stitch.rpc import FUSE_REQUEST, NINEP_REQUEST, Calls
from iostrata.stitch.spans import SpanList, Spans
from iostrata.stitch.wakers import Explained, Tied
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window
from iostrata.trace import Facts
from iostrata.trace.layout import NFS_READ

SERVED: Final = (
    "page cache", "readahead under way", "device", "kernel", "not told", "server", "daemon",
    "device behind a limit",
)  # fmt: skip
PAGE_CACHE, READAHEAD, DEVICE, KERNEL, UNTOLD, SERVER, DAEMON, LIMITED = range(len(SERVED))
FURTHER: Final = (PAGE_CACHE, KERNEL, UNTOLD, READAHEAD, DAEMON, SERVER, LIMITED, DEVICE)
"""The nearest first; what is known to have been waited for is behind all else."""
OF_FILE: Final = "block_bio_file"
FUSE_READ: Final = FUSE_REQUEST + 15
"""Of enum fuse_opcode (linux/fuse.h)."""
NINEP_READ: Final = NINEP_REQUEST + 116
"""P9_TREAD (net/9p/9p.h)."""

# What the kernel makes up as it is read: no disk is behind it.
MADE_UP: Final = frozenset(
    {"bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "efivarfs", "proc", "pstore",
     "securityfs", "selinuxfs", "sysfs", "tracefs"}
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Awaited:
    """``explained``: of the sleeps, with what the reads' pages were awaited by.

    ``bios``: of what was tied to pieces and bios so; ``served``: of each piece, a code into
    ``SERVED``, ``PAGE_CACHE`` being of those that no device was asked for.
    """

    explained: Explained
    served: Ints


@dataclass(frozen=True, eq=False)
class Asked:
    """Bios, or calls of the NFS client, that read a part of a file: one row each.

    ``row``: of the bios or calls. ``file``: by one key; ``low``, ``high``: bytes from, to (not
    with); ``holes``: not all of it is read, and what is not is not told. ``tid``: who asked,
    ``begin_ns``, ``end_ns``: from when on until it was there, -1: it was not seen.
    """

    row: Ints
    file: Ints
    low: Ints
    high: Ints
    holes: NDArray[np.bool_]
    tid: Ints
    begin_ns: Ints
    end_ns: Ints


@dataclass(frozen=True, eq=False)
class _Readers:
    """A window's pieces as reads. ``owners``: who is at which at a time."""

    pieces: Pieces
    reads: Reads
    owners: Owners

    @cached_property
    def file(self) -> Ints:
        """Of each, by one key."""
        file: Ints = pair_key(self.reads.device_key, self.reads.inode)
        return file


def own_reads(window: Window, owner: Ints) -> NDArray[np.bool_]:
    """Which owners of bios waited for all that they read: reads past the page cache."""
    if window.reads is None:
        return np.zeros(len(owner), np.bool_)
    past: NDArray[np.bool_] = at(window.reads.direct.astype(np.int64), owner) > 0
    return past


def queued_before(window: Window, bios: Bios, tied: Tied, owners: Owners) -> NDArray[np.bool_]:
    """Which reads' bios were on their way before the read began, or are another thread's.

    Of what a limit had held back it is not known who asked for it.
    """
    if window.reads is None:
        return np.zeros(len(tied.row), np.bool_)
    mine: NDArray[np.bool_] = tied.owner < len(window.pieces)
    tid, begin = bios.tid[tied.row], bios.begin_ns[tied.row]
    mine &= bios.read[tied.row] & ~bios.held[tied.row]
    mine &= owners.find(tid, begin) != tied.owner
    return mine


def awaited(
    window: Window,
    bios: Bios,
    calls: Calls,
    sleeps: Sleeps,
    piece_of_sleep: Ints,
    owners: Owners,
    waited: tuple[Ints, Ints],
    explained: Explained,
) -> Awaited:
    """Of a window of reads. ``waited``: of each bio, and of each call, the piece that is known to
    have waited for it; ``piece_of_sleep``: whose each sleep is; -1: nobody's.
    """
    assert window.reads is not None
    readers = _Readers(window.pieces, window.reads, owners)
    of_bios, of_calls = _bios_of_files(window, bios), _calls_of_files(calls)
    bios_needed, calls_needed = (
        _awaited_for_sure(_needed(readers, asked), asked, sleeps, piece_of_sleep)
        for asked in (of_bios, of_calls)
    )
    keyed = np.concatenate([bios_needed.owner, calls_needed.owner])
    ties, called = (
        Tied(**joined([_without_chance(readers, tied, asked, keyed), needed]))
        for tied, asked, needed in (
            (explained.bios, of_bios, bios_needed),
            (explained.calls, of_calls, calls_needed),
        )
    )
    woken, ended = SpanList(), explained.ended.copy()
    for needed in (bios_needed, calls_needed):
        ended |= _woken(woken, needed, sleeps, piece_of_sleep)
    explained = replace(
        explained,
        spans=Spans(**joined([explained.spans, woken.collect()])),
        bios=ties,
        calls=called,
        ended=ended,
    )
    # Past the page cache there is nothing but the device to tell of.
    untold = window.reads.direct.copy()
    untold[piece_of_sleep[sleeps.asleep & ~ended & (piece_of_sleep >= 0)]] = True
    untold[_of_unknown_files(window.trace.facts, readers, bios, of_bios, waited[0])] = True
    untold |= ~_seen_through(window, owners)
    served = np.full(len(window.pieces), PAGE_CACHE)
    served[_are_made_up(window.trace.facts, window.reads.device_key)] = KERNEL
    served[untold] = UNTOLD
    of_daemon = calls.operation == FUSE_READ
    of_server = one_of(calls.operation, (NFS_READ, NINEP_READ))
    # Which part of a file a daemon was asked for is not told: only who waited for it.
    nobody = np.full(len(calls), -1)
    for tied, known, place, reading, tid, begin in (
        (ties, waited[0], DEVICE, bios.read & ~bios.held, bios.tid, bios.begin_ns),
        (called, nobody, DAEMON, of_daemon, calls.tid, calls.begin_ns),
        (called, waited[1], SERVER, of_server, calls.tid, calls.begin_ns),
    ):
        mine = tied.rows(np.flatnonzero((tied.owner < len(served)) & reading[tied.row]))
        itself = owners.find(tid[mine.row], begin[mine.row]) == mine.owner
        served[mine.owner[~itself]] = READAHEAD
        served[mine.owner[itself]] = place
        served[known[(known >= 0) & reading]] = place
    # Who hands on what a limit had held back, is not who asked for it: that may have been a read
    # before. Past the page cache nobody waits for what another one asked for.
    held, asker = bios.read & bios.held, waited[0]
    behind = np.concatenate([ties.owner[held[ties.row]], asker[held & (asker >= 0)]])
    behind = behind[behind < len(served)]
    own = window.reads.direct[behind] | (served[behind] == DEVICE)
    served[behind] = np.where(own, DEVICE, LIMITED)
    return Awaited(explained, served)


def _without_chance(readers: _Readers, tied: Tied, asked: Asked, keyed: Ints) -> Tied:
    """Other reads may be complete just before a reader is let go: what it asked for beyond its
    own pages, and others' on the same disk. ``keyed``: who waited for anything by its pages."""
    row = np.full(int(max(tied.row.max(initial=-1), asked.row.max(initial=-1))) + 1, -1)
    row[asked.row] = np.arange(len(asked.row))
    told = row[tied.row]
    asker = readers.owners.find(at(asked.tid, told), at(asked.begin_ns, told))
    own = (asker == tied.owner) & (at(asked.file, told) == at(readers.file, asker))
    chance = (told >= 0) & (own | one_of(tied.owner, keyed))
    return tied.rows(np.flatnonzero(~chance))


def _of_unknown_files(
    facts: Facts, readers: _Readers, bios: Bios, of_bios: Asked, piece_of_bio: Ints
) -> Ints:
    """The pieces that asked a disk for data of which it is not known whether it is theirs.

    What was split off a bio is of the same file. One in an overlay has that one's device and mostly
    (ovl_map_ino, fs/overlayfs/inode.c) the number of the file below, which its pages are of.
    """
    file, known = np.full(len(bios), -1), np.zeros(len(bios), np.bool_)
    file[of_bios.row], known[of_bios.row] = of_bios.file, True
    whole = np.where(known, np.arange(len(bios)), bios.root)
    file, known = file[whole], known[whole]
    asker = np.where(
        bios.read & (piece_of_bio < 0), readers.owners.find(bios.tid, bios.begin_ns), -1
    )
    # What its file system reads ahead of itself (inode tables) is on the same disk's node.
    device = readers.reads.device_key
    node = pair_key(device, np.zeros(len(device), np.int64))
    below = pair_key(_written_to(facts, device), readers.reads.inode)
    known &= np.any([file == at(one, asker) for one in (readers.file, node, below)], axis=0)
    # Who serves a call reads nothing but its file, whatever that is.
    known |= at(device, asker) == FILE_UNKNOWN
    return asker[(asker >= 0) & ~known]


def _written_to(facts: Facts, device_key: Ints) -> Ints:
    """Of overlays, the file systems that their changes go to; anything else is its own."""
    keys, row = coded(device_key)
    return np.array([facts.written_to(key) for key in keys.tolist()], np.int64)[row]


def _are_made_up(facts: Facts, device_key: Ints) -> NDArray[np.bool_]:
    made_up = [key for key in distinct(device_key).tolist() if facts.file_system(key) in MADE_UP]
    return one_of(device_key, made_up)


def read_at_once(owners: Owners) -> Spans:
    """When requests were read where they were submitted, or by a worker: that is their own time."""
    spans, own = SpanList(), owners.submitting
    spans.add(own.piece, "read.cached", own.begin_ns, own.end_ns)
    spans.add(owners.runs.piece, "read.cached", owners.runs.begin_ns, owners.runs.end_ns)
    return spans.collect()


def _seen_through(window: Window, owners: Owners) -> NDArray[np.bool_]:
    """Calls; and requests all of whose way is seen: complete where they were submitted, or by a
    worker that ran them, be it a target's."""
    seen: NDArray[np.bool_] = window.pieces.request_key == 0
    seen[owners.runs.piece[owners.runs.own]] = True
    seen[owners.submitting.piece[owners.submitting.whole]] = True
    seen[owners.carried_out] = True
    return seen


def _bios_of_files(window: Window, bios: Bios) -> Asked:
    # Older recordings do not tell where the last page ends.
    later = [name for name in ("end_bytes",) if name in window.trace.points[OF_FILE].fields]
    fields = ("bio_key", "inode", "offset_bytes", "dev", "size_bytes", *later)
    told = window.columns(OF_FILE, *fields)
    found = bios.by_key.at_or_before(told["bio_key"], told["time_ns"])
    rows = np.flatnonzero(found >= 0)
    row, told = found[rows], {name: column[rows] for name, column in told.items()}
    low = told["offset_bytes"]
    high = low + told["size_bytes"]
    last = np.maximum(told.get("end_bytes", high), high)
    return Asked(
        row, pair_key(told["dev"], told["inode"]), low, last, last > high,
        bios.tid[row], bios.begin_ns[row], bios.life_end_ns[row],
    )  # fmt: skip


def _calls_of_files(calls: Calls) -> Asked:
    row = np.flatnonzero(calls.operation == NFS_READ)
    low = calls.offset_bytes[row]
    return Asked(
        row, pair_key(calls.device_key[row], calls.inode[row]), low, low + calls.size_bytes[row],
        np.zeros(len(row), np.bool_), calls.tid[row], calls.begin_ns[row], calls.end_ns[row],
    )  # fmt: skip


def _needed(readers: _Readers, asked: Asked) -> Tied:
    """Reads, and what was under way to pages of theirs, and there before they ended."""
    reads, pieces = readers.reads, readers.pieces
    mine = np.flatnonzero(~reads.direct & (reads.offset_bytes >= 0))
    theirs = np.flatnonzero(asked.end_ns >= 0)
    # One time after the other for each file: there may be as many files as reads.
    _, file = np.unique(
        np.concatenate([readers.file[mine], asked.file[theirs]]), return_inverse=True
    )
    begin = np.concatenate([pieces.begin_ns[mine], asked.begin_ns[theirs]])
    end = np.concatenate([pieces.end_ns[mine], asked.end_ns[theirs]])
    apart = file * (end.max(initial=0) - begin.min(initial=0) + 1)
    begin, end, few = begin + apart, end + apart, len(mine)
    key = np.zeros(len(begin), np.int64)
    left, right = overlapping(
        key[:few], begin[:few], end[:few], key[few:], begin[few:], end[few:]
    )  # fmt: skip
    piece, one = mine[left], theirs[right]
    low = reads.offset_bytes[piece]
    needed = (asked.low[one] < low + reads.size_bytes[piece]) & (asked.high[one] > low)
    needed &= asked.end_ns[one] <= pieces.end_ns[piece]
    piece, one = piece[needed], one[needed]
    begin = np.maximum(pieces.begin_ns[piece], asked.begin_ns[one])
    return Tied(piece, asked.row[one], begin, asked.end_ns[one])


def _awaited_for_sure(ties: Tied, asked: Asked, sleeps: Sleeps, piece_of_sleep: Ints) -> Tied:
    """Without those of which only a hole may have been read, that has no need of them."""
    doubtful = np.isin(ties.row, asked.row[asked.holes])
    return ties.rows(np.flatnonzero(~doubtful | (_ended(ties, sleeps, piece_of_sleep) >= 0)))


def _woken(spans: SpanList, ties: Tied, sleeps: Sleeps, piece_of_sleep: Ints) -> NDArray[np.bool_]:
    """Adds from when the pages were there until the sleeper was let go; says which sleeps ended
    so."""
    ended = np.zeros(len(sleeps), np.bool_)
    sleep = _ended(ties, sleeps, piece_of_sleep)
    soon = np.flatnonzero(sleep >= 0)
    sleep, done = sleep[soon], ties.end_ns[soon]
    spans.add(piece_of_sleep[sleep], "wakeup.interrupt", done, sleeps.wake_ns[sleep])
    ended[sleep] = True
    return ended


def _ended(ties: Tied, sleeps: Sleeps, piece_of_sleep: Ints) -> Ints:
    """The sleep of its owner that each of them ended, -1: none."""
    slept = np.flatnonzero(sleeps.asleep & (piece_of_sleep >= 0))
    during = Containing(piece_of_sleep[slept], sleeps.off_ns[slept], sleeps.wake_ns[slept])
    sleep = at(slept, during.find(ties.owner, ties.end_ns))
    soon = at(sleeps.wake_ns, sleep) - ties.end_ns <= SOON_NS
    return np.where(soon, sleep, -1)
