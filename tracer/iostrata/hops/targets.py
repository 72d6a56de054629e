# SPDX-License-Identifier: Apache-2.0
"""Hops: what a target in the kernel served in, what each command read of its disk or file out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import NEVER, AsOf, Ints, at, columns_of
from iostrata.hops.hop import READ_MARK, Link, Serves
from iostrata.stitch import FILE_UNKNOWN, Columns, Reads, are_direct, longest_read


def places_of(offset_bytes: Ints, reading: NDArray[np.bool_]) -> Ints:
    """What is read there is none of what is written there."""
    return np.where(reading, offset_bytes | READ_MARK, offset_bytes)


def reading_of(serves: Serves) -> NDArray[np.bool_]:
    """Which of a target's serves read; their places are as ``places_of`` has them."""
    reading: NDArray[np.bool_] = (serves.offset_bytes & READ_MARK) != 0
    return reading


def answered(name: str, key: Ints, end_ns: Ints, sent: Columns, *others: Columns) -> Ints:
    """When the answer was with the connection; of what was not seen, when the command was complete.

    ``sent``, ``others``: what is told of sent answers, and of all commands that began or were
    complete, by the field ``name``, which is used again: either may not be seen of the next one.
    """
    until = np.full(len(key), NEVER)
    for each in others:
        again = AsOf(each[name], each["time_ns"]).at_or_after(key, end_ns + 1)
        until = np.where(again >= 0, np.minimum(until, at(each["time_ns"], again)), until)
    found = AsOf(sent[name], sent["time_ns"]).at_or_before(key, until - 1)
    time = at(sent["time_ns"], found)
    return np.where((found >= 0) & (time >= end_ns), time, end_ns)


def read_by(link: Link) -> Reads:
    """Of each piece, which is a serve's. What is of no file passes no page cache."""
    lower, pieces, serves = link.lower.trace, link.lower.pieces, link.serves
    files = columns_of(lower.points["target_file"], "request_key", "inode", "dev", "open_flags")
    told = AsOf(files["request_key"], files["time_ns"])
    file = told.at_or_before(pieces.request_key, pieces.end_ns)
    file = np.where(at(files["time_ns"], file) >= pieces.begin_ns, file, -1)
    known = (file >= 0) & (at(files["dev"], file) > 0)
    device = np.where(file >= 0, FILE_UNKNOWN, pieces.device_key)
    return Reads(
        device_key=np.where(known, at(files["dev"], file), device),
        inode=np.where(known, at(files["inode"], file), 0),
        offset_bytes=serves.offset_bytes & ~READ_MARK,
        size_bytes=np.where(reading_of(serves), serves.size_bytes, 0),
        direct=(file < 0) | are_direct(lower, at(files["open_flags"], file)),
        reach_ns=longest_read(lower),
    )
