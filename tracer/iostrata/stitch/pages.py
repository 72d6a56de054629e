# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: reads and the bios of their files in, which read waited for which bios out.

A read through the page cache waits for pages, whoever asked the disk for them: itself, an
earlier read (readahead), or another thread. Which pages a bio reads is told with it: that is
the key. What a read asks for beyond its own pages (readahead), it does not wait for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Containing, Ints, at, distinct, joined, overlapping, pair_key
from iostrata.stitch.bios import Bios
from iostrata.stitch.calls import Reads
from iostrata.stitch.endings import SOON_NS
from iostrata.stitch.spans import SpanList, Spans
from iostrata.stitch.wakers import Explained, Tied
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window
from iostrata.trace import Facts

SERVED: Final = ("page cache", "readahead under way", "device", "kernel", "not told")
PAGE_CACHE, READAHEAD, DEVICE, KERNEL, UNTOLD = range(len(SERVED))

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
class Files:
    """Of each bio, which part of a file it reads; ``told`` False: it is not known."""

    told: NDArray[np.bool_]
    key: Ints
    low: Ints
    high: Ints


def own_reads(window: Window, owner: Ints) -> NDArray[np.bool_]:
    """Which owners of bios waited for all that they read: reads past the page cache."""
    if window.reads is None:
        return np.zeros(len(owner), np.bool_)
    past: NDArray[np.bool_] = at(window.reads.direct.astype(np.int64), owner) > 0
    return past


def queued_before(window: Window, bios: Bios, tied: Tied) -> NDArray[np.bool_]:
    """Which reads' bios were on their way before the read began, or are another thread's."""
    if window.reads is None:
        return np.zeros(len(tied.row), np.bool_)
    mine = tied.owner < len(window.pieces)
    return mine & bios.read[tied.row] & ~_by_itself(window, bios, tied.owner, tied.row)


def awaited(
    window: Window,
    bios: Bios,
    sleeps: Sleeps,
    piece_of_sleep: Ints,
    piece_of_bio: Ints,
    explained: Explained,
) -> Awaited:
    """Of a window of reads. ``piece_of_bio``: of those that are known to be awaited already.

    ``piece_of_sleep``: whose each sleep is, -1: nobody's.
    """
    assert window.reads is not None
    files = _files(window, bios)
    keyed = _needed(window, window.reads, bios, files)
    asker = _asker(window, bios)
    of_its_file = files.told & (files.key == at(_file_of(window, window.reads), asker))
    # Other reads may be complete just before it is let go: what it asked for beyond its own pages,
    # and others' on the same disk.
    tied = explained.bios
    chance = (asker[tied.row] == tied.owner) & of_its_file[tied.row]
    chance |= files.told[tied.row] & np.isin(tied.owner, keyed.owner)
    ties = Tied(**joined([tied.rows(np.flatnonzero(~chance)), keyed]))
    woken, ended = _woken(keyed, bios, sleeps, piece_of_sleep)
    explained = replace(
        explained,
        spans=Spans(**joined([explained.spans, woken])),
        bios=ties,
        ended=explained.ended | ended,
    )
    # Past the page cache there is nothing but the device to tell of.
    untold = window.reads.direct.copy()
    untold[piece_of_sleep[sleeps.asleep & ~explained.ended & (piece_of_sleep >= 0)]] = True
    # What its file system reads ahead of itself (inode tables) is on the same disk's node.
    around = files.told & (files.key == at(_node_of(window), asker))
    unknown = (asker >= 0) & ~of_its_file & ~around & (piece_of_bio < 0)
    untold[asker[unknown]] = True
    return Awaited(explained, _served(window, bios, ties, piece_of_bio, untold))


def _served(
    window: Window, bios: Bios, ties: Tied, piece_of_bio: Ints, untold: NDArray[np.bool_]
) -> Ints:
    """The furthest that each read waited for."""
    served = np.full(len(window.pieces), PAGE_CACHE)
    served[_are_made_up(window.trace.facts, window.pieces.device_key)] = KERNEL
    served[untold] = UNTOLD
    of_read = (ties.owner < len(window.pieces)) & bios.read[ties.row]
    ties = ties.rows(np.flatnonzero(of_read))
    itself = _by_itself(window, bios, ties.owner, ties.row)
    served[ties.owner[~itself]] = READAHEAD
    served[ties.owner[itself]] = DEVICE
    served[piece_of_bio[(piece_of_bio >= 0) & bios.read]] = DEVICE
    return served


def _are_made_up(facts: Facts, device_key: Ints) -> NDArray[np.bool_]:
    made_up = [key for key in distinct(device_key).tolist() if facts.file_system(key) in MADE_UP]
    return np.isin(device_key, made_up)


def _by_itself(window: Window, bios: Bios, piece: Ints, bio: Ints) -> NDArray[np.bool_]:
    """Whether the piece's own call asked for the bio; who is no piece (a commit) has no call."""
    pieces, begin = window.pieces, bios.begin_ns[bio]
    piece = np.where(piece < len(pieces), piece, -1)
    itself: NDArray[np.bool_] = bios.tid[bio] == at(pieces.tid, piece)
    itself &= (begin >= at(pieces.begin_ns, piece)) & (begin <= at(pieces.end_ns, piece))
    return itself


def _asker(window: Window, bios: Bios) -> Ints:
    """Of each bio of a file's data, the piece in whose call it was asked for, -1: in none."""
    pieces = window.pieces
    own = np.flatnonzero(pieces.request_key == 0)
    calls = Containing(pieces.tid[own], pieces.begin_ns[own], pieces.end_ns[own])
    return np.where(bios.read, at(own, calls.find(bios.tid, bios.begin_ns)), -1)


def _file_of(window: Window, reads: Reads) -> Ints:
    """Of each piece, its file by one key."""
    return pair_key(window.pieces.device_key, reads.inode)


def _node_of(window: Window) -> Ints:
    """Of each piece, by one key the node of the device that its file is on."""
    return pair_key(window.pieces.device_key, np.zeros(len(window.pieces), np.int64))


def _files(window: Window, bios: Bios) -> Files:
    events = window.columns(
        "block_bio_file", "bio_key", "inode", "offset_bytes", "dev", "size_bytes"
    )
    row = bios.by_key.at_or_before(events["bio_key"], events["time_ns"])
    rows = np.flatnonzero(row >= 0)
    row = row[rows]
    told = np.zeros(len(bios), np.bool_)
    key, low, high = (np.full(len(bios), -1) for _ in range(3))
    told[row] = True
    key[row] = pair_key(events["dev"][rows], events["inode"][rows])
    low[row] = events["offset_bytes"][rows]
    high[row] = low[row] + events["size_bytes"][rows]
    return Files(told, key, low, high)


def _needed(window: Window, reads: Reads, bios: Bios, files: Files) -> Tied:
    """Reads and the bios that were under way to pages of theirs, and there before they ended."""
    pieces = window.pieces
    mine = np.flatnonzero(~reads.direct & (reads.offset_bytes >= 0))
    theirs = np.flatnonzero(files.told & (bios.life_end_ns >= 0))
    left, right = overlapping(
        _file_of(window, reads)[mine],
        pieces.begin_ns[mine],
        pieces.end_ns[mine],
        files.key[theirs],
        bios.begin_ns[theirs],
        bios.life_end_ns[theirs],
    )
    piece, bio = mine[left], theirs[right]
    low = reads.offset_bytes[piece]
    needed = (files.low[bio] < low + reads.size_bytes[piece]) & (files.high[bio] > low)
    needed &= bios.life_end_ns[bio] <= pieces.end_ns[piece]
    piece, bio = piece[needed], bio[needed]
    begin = np.maximum(pieces.begin_ns[piece], bios.begin_ns[bio])
    return Tied(piece, bio, begin, bios.life_end_ns[bio])


def _woken(
    ties: Tied, bios: Bios, sleeps: Sleeps, piece_of_sleep: Ints
) -> tuple[Spans, NDArray[np.bool_]]:
    """From when the pages were there until the sleeper was let go; and which sleeps ended so."""
    spans, ended = SpanList(), np.zeros(len(sleeps), np.bool_)
    slept = np.flatnonzero(sleeps.asleep & (piece_of_sleep >= 0))
    during = Containing(piece_of_sleep[slept], sleeps.off_ns[slept], sleeps.wake_ns[slept])
    done = bios.life_end_ns[ties.row]
    sleep = at(slept, during.find(ties.owner, done))
    soon = (sleep >= 0) & (at(sleeps.wake_ns, sleep) - done <= SOON_NS)
    sleep, done = sleep[soon], done[soon]
    spans.add(piece_of_sleep[sleep], "wakeup.interrupt", done, sleeps.wake_ns[sleep])
    ended[sleep] = True
    return spans.collect(), ended
