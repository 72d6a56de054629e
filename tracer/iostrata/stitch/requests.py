# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: block events in, the requests that devices had out.

Vocabulary of blktrace: Q queue, G get request, I insert, D issue, C complete.
A cache flush reaches the device as a request of the block layer's own: neither
pointer nor sector ties it to the bio that asked for it, whose request is
completed but never issued (block/blk-flush.c). And a request's pointer is
reused at once, so it is a key only together with time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import AsOf, Ints, at, distinct, order_of
from iostrata.stitch.window import Columns, Window

OPERATION_MASK: Final = 0xFF
META: Final = 1 << 12
FUA: Final = 1 << 17
OP_READ: Final = 0
OP_WRITE: Final = 1
OP_FLUSH: Final = 2
OP_DISCARD: Final = 3

ISSUED: Final = ("request_key", "size_bytes")
"""What tells of those that were issued, besides when, with which completions they ended."""


@dataclass(frozen=True, eq=False)
class Unended:
    """Requests that were issued, and whose end was not seen."""

    device_key: Ints
    sector: Ints
    size_bytes: Ints
    issue_ns: Ints


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests that were issued and completed: one row each, in order of issue.

    ``read``: of a file's data. ``flush``: a cache flush that the block layer made itself.
    ``returned``: the driver gave it back, at ``complete_ns``, to be issued again: that is a row of
    its own; or its bios, to be queued to another path.
    ``completion``: row of the completions that it ended with, -1: it was returned.
    ``issuer``: the thread that was running when it was issued. ``issued_by``, ``completed_by``:
    the kernel thread that did so itself, -1: none.
    ``disks``: keys of the devices that have requests at all (others complete bios
    themselves). ``unended``: those that are no rows here.
    """

    key: Ints
    bio_key: Ints
    device_key: Ints
    sector: Ints
    size_bytes: Ints
    issue_ns: Ints
    complete_ns: Ints
    completion: Ints
    operation: Ints
    read: NDArray[np.bool_]
    flush: NDArray[np.bool_]
    returned: NDArray[np.bool_]
    issuer: Ints
    issued_by: Ints
    completed_by: Ints
    disks: Ints
    unended: Unended


def requests_of(window: Window) -> tuple[Requests, Columns]:
    """Pairs issue and completion by request pointer; orphans of either kind are left out.

    Also returns the completions, which bios need too.
    """
    issued = window.columns(
        "block_rq_issue", "tid", "request_key", "bio_key", "sector", "dev", "size_bytes", "flags",
        *_who(window, "block_rq_issue"),
    )  # fmt: skip
    done = window.columns(
        "block_rq_complete", "tid", "cpu", "request_key", "bio_key", "dev", "size_bytes",
        *_who(window, "block_rq_complete"),
    )  # fmt: skip
    back = window.columns("block_rq_requeue", "request_key")
    completion, complete, returned = _ended(window, issued, done, back)
    key, issue, size = issued["request_key"], issued["time_ns"], issued["size_bytes"]
    left, kept = np.flatnonzero(complete < 0), _kept(complete >= 0)
    operation = issued["flags"] & OPERATION_MASK
    return Requests(
        key=key[kept],
        bio_key=issued["bio_key"][kept],
        device_key=issued["dev"][kept],
        sector=issued["sector"][kept],
        size_bytes=size[kept],
        issue_ns=issue[kept],
        complete_ns=complete[kept],
        completion=completion[kept],
        operation=operation[kept],
        read=reads_data(issued["flags"][kept]),
        flush=(operation[kept] == OP_FLUSH) | (size[kept] == 0),
        returned=returned[kept],
        issuer=issued["tid"][kept],
        issued_by=_threads(issued)[kept],
        completed_by=at(_threads(done), completion[kept]),
        disks=distinct(np.concatenate([distinct(issued["dev"]), distinct(done["dev"])])),
        unended=Unended(issued["dev"][left], issued["sector"][left], size[left], issue[left]),
    ), done


def _ended(
    window: Window, issued: Columns, done: Columns, back: Columns
) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """As ``_paired``. What ended behind a loss that began after it was issued may have ended before
    that, and be another by then: as if its pointer was used again where the loss begins.
    """
    pair = _paired if native.LIBRARY is None else _paired_in_c
    found = pair(issued, done, back)
    if not len(window.trace.losses):
        return found
    lost = window.trace.losses.next(issued["time_ns"])
    again = np.flatnonzero(found[1] >= lost)
    if not len(again):
        return found
    every = {name: np.append(issued[name], issued[name][again]) for name in ISSUED}
    every["time_ns"] = np.append(issued["time_ns"], lost[again])
    order = order_of(every["time_ns"])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    own = place[: len(lost)]
    completion, complete, returned = pair(
        {name: column[order] for name, column in every.items()}, done, back
    )
    return completion[own], complete[own], returned[own]


def _kept(some: NDArray[np.bool_]) -> slice | Ints:
    """The rows. Mostly only the first or last ones of a window are none: then nothing is copied."""
    rows = np.flatnonzero(some)
    if len(rows) and rows[-1] - rows[0] < len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def _paired_in_c(
    issued: Columns, done: Columns, back: Columns
) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    completion, complete, returned = native.pair_requests(
        (issued["request_key"], issued["time_ns"], issued["size_bytes"]),
        (done["request_key"], done["time_ns"], done["size_bytes"], done["bio_key"]),
        (back["request_key"], back["time_ns"]),
    )
    return completion, complete, returned > 0


def _paired(issued: Columns, done: Columns, back: Columns) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Of each request, the completion that it ended with, -1: none; when it was over, -1: never;
    and whether it was given back then (``back``), or lost its bios."""
    key, issue, size = issued["request_key"], issued["time_ns"], issued["size_bytes"]
    completion = np.full(len(key), -1)
    until = AsOf(key, issue).following()
    # A request that also asked for a flush completes once with its data and once,
    # empty, after the flush; a partial completion is followed by the rest.
    for with_data in (False, True):
        rows = np.flatnonzero((size > 0) == with_data)
        ends = np.flatnonzero((done["size_bytes"] > 0) == with_data)
        last = AsOf(done["request_key"][ends], done["time_ns"][ends])
        found = at(ends, last.at_or_before(key[rows], until[rows] - 1))
        completion[rows] = np.where(at(done["time_ns"], found) >= issue[rows], found, -1)
    complete = at(done["time_ns"], completion)
    time = at(back["time_ns"], AsOf(back["request_key"], back["time_ns"]).at_or_after(key, issue))
    returned = (complete < 0) & (time >= 0) & (time < until)
    complete = np.where(returned, time, complete)
    # What lost its bios to another path (blk_steal_bios) ends without any: for them it is given
    # back, too.  What has one and no data is a flush in a later use of the pointer.
    empty = np.flatnonzero((done["size_bytes"] == 0) & (done["bio_key"] == 0))
    last = AsOf(done["request_key"][empty], done["time_ns"][empty])
    time = at(done["time_ns"], at(empty, last.at_or_before(key, until - 1)))
    robbed = (complete < 0) & (time >= issue)
    return completion, np.where(robbed, time, complete), returned | robbed


def reads_data(flags: Ints) -> NDArray[np.bool_]:
    """Reads of data: no write consists of one, it only may be ahead of one."""
    reads: NDArray[np.bool_] = ((flags & OPERATION_MASK) == OP_READ) & ((flags & META) == 0)
    return reads


def _who(window: Window, point: str) -> tuple[str, ...]:
    """What older recordings do not tell."""
    told = "by_kernel_thread" in window.trace.points[point].fields
    return ("by_kernel_thread",) if told else ()


def _threads(events: Columns) -> Ints:
    if "by_kernel_thread" not in events:
        return np.full(len(events["time_ns"]), -1)
    return np.where(events["by_kernel_thread"] > 0, events["tid"], -1)
