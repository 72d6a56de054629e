# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: block events in, each bio's way to the device and back out.

Vocabulary of blktrace: Q queue, G get request, I insert, D issue, C complete.
Two facts shape this file. A cache flush reaches the device as a request of the
block layer's own: neither pointer nor sector ties it to the bio that asked for
it, whose request is completed but never issued (block/blk-flush.c). And a
request's pointer is reused at once, so it is a key only together with time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at
from iostrata.stitch.window import Columns, Window

OPERATION_MASK: Final = 0xFF
OP_WRITE: Final = 1
OP_FLUSH: Final = 2
META: Final = 1 << 12
FUA: Final = 1 << 17
PREFLUSH: Final = 1 << 18

# How many requests issued after a bio was queued are searched for the one it was merged into.
MERGE_SEARCH: Final = 256


@dataclass(frozen=True)
class Requests:
    """Requests that were issued and completed: one row each, in order of issue.

    ``flush``: a cache flush that the block layer made itself. ``disks``: keys of
    the devices that have requests at all (others complete bios themselves).
    """

    key: Ints
    bio_key: Ints
    device_key: Ints
    sector: Ints
    size_bytes: Ints
    issue_ns: Ints
    complete_ns: Ints
    operation: Ints
    flush: NDArray[np.bool_]
    disks: Ints


@dataclass(frozen=True)
class Bios:
    """Bios as queued: one row each, in order of Q. Times in ns, -1: not seen or none.

    ``request``: row of the Requests that carried the data, -1 for an empty flush.
    ``life_end_ns``: the bio itself was complete (after the flushes it asked for).
    """

    key: Ints
    tid: Ints
    device_key: Ints
    sector: Ints
    size_bytes: Ints
    meta: NDArray[np.bool_]
    wants_flush: NDArray[np.bool_]
    kernel_thread: NDArray[np.bool_]
    queue_ns: Ints
    get_ns: Ints
    insert_ns: Ints
    request: Ints
    life_end_ns: Ints

    def __len__(self) -> int:
        return len(self.key)

    def rows(self, rows: Ints) -> Bios:
        """Some of the bios, in the order of ``rows``."""
        return Bios(**{name: column[rows] for name, column in vars(self).items()})


def requests_of(window: Window) -> tuple[Requests, Columns]:
    """Pairs issue and completion by request pointer; orphans of either kind are left out.

    Also returns the completions, which bios need too.
    """
    issued = window.columns(
        "block_rq_issue", "request_key", "bio_key", "sector", "dev", "size_bytes", "flags"
    )
    done = window.columns("block_rq_complete", "tid", "request_key", "bio_key", "dev", "size_bytes")
    key, issue, size = issued["request_key"], issued["time_ns"], issued["size_bytes"]
    complete = np.full(len(key), -1)
    until = _next_time(key, issue)
    # A request that also asked for a flush completes once with its data and once,
    # empty, after the flush; a partial completion is followed by the rest.
    for with_data in (False, True):
        rows = np.flatnonzero((size > 0) == with_data)
        ends = np.flatnonzero((done["size_bytes"] > 0) == with_data)
        times = done["time_ns"][ends]
        found = AsOf(done["request_key"][ends], times).at_or_before(key[rows], until[rows] - 1)
        time = at(times, found)
        complete[rows] = np.where(time >= issue[rows], time, -1)
    kept = np.flatnonzero(complete >= 0)
    operation = issued["flags"] & OPERATION_MASK
    return Requests(
        key=key[kept],
        bio_key=issued["bio_key"][kept],
        device_key=issued["dev"][kept],
        sector=issued["sector"][kept],
        size_bytes=size[kept],
        issue_ns=issue[kept],
        complete_ns=complete[kept],
        operation=operation[kept],
        flush=((operation == OP_FLUSH) | (size == 0))[kept],
        disks=np.union1d(issued["dev"], done["dev"]),
    ), done


def bios_of(window: Window, requests: Requests, completed: Columns) -> Bios:
    """Follows each queued bio to the request that carried it and to its completion."""
    queued = window.columns(
        "block_bio_queue", "tid", "bio_key", "sector", "dev", "size_bytes", "flags",
        "kernel_thread",
    )  # fmt: skip
    key, queue, device = queued["bio_key"], queued["time_ns"], queued["dev"]
    sector, size, flags = queued["sector"], queued["size_bytes"], queued["flags"]
    until = _next_time(key, queue)
    data = np.flatnonzero(~requests.flush)
    request = at(
        data, AsOf(requests.bio_key[data], requests.issue_ns[data]).at_or_after(key, queue)
    )
    issue = at(requests.issue_ns, request)
    request = np.where((size > 0) & (issue < until), request, -1)
    _find_merged(request, requests, device, sector, size, queue)
    life_end = np.maximum(
        _bio_ends(completed, key, queue, until),
        _bio_ends(window.columns("block_bio_complete", "bio_key"), key, queue, until),
    )
    issue = at(requests.issue_ns, request)
    return Bios(
        key=key,
        tid=queued["tid"],
        device_key=device,
        sector=sector,
        size_bytes=size,
        meta=(flags & META) != 0,
        wants_flush=((flags & (FUA | PREFLUSH)) != 0) | ((flags & OPERATION_MASK) == OP_FLUSH),
        kernel_thread=queued["kernel_thread"] != 0,
        queue_ns=queue,
        get_ns=np.maximum(
            _between(window, "block_io_start", key, queue, issue),
            _between(window, "block_getrq", key, queue, issue),
        ),
        insert_ns=_between(window, "block_rq_insert", key, queue, issue),
        request=request,
        life_end_ns=np.maximum(life_end, at(requests.complete_ns, request)),
    )


def _find_merged(
    request: Ints, requests: Requests, device: Ints, sector: Ints, size: Ints, queue: Ints
) -> None:
    """A bio that was merged or split is in the next request on its disk that holds its sectors."""
    for disk in np.unique(device):
        rows = np.flatnonzero((request < 0) & (size > 0) & (device == disk))
        candidates = np.flatnonzero(~requests.flush & (requests.device_key == disk))
        place = np.searchsorted(requests.issue_ns[candidates], queue[rows])
        for _ in range(MERGE_SEARCH):
            ahead = place < len(candidates)
            rows, place = rows[ahead], place[ahead]
            if not len(rows):
                break
            candidate = candidates[place]
            first, last = sector[rows], sector[rows] + size[rows] // 512
            begin = requests.sector[candidate]
            holds = (begin < last) & (begin + requests.size_bytes[candidate] // 512 > first)
            request[rows[holds]] = candidate[holds]
            rows, place = rows[~holds], place[~holds] + 1


def _bio_ends(done: Columns, key: Ints, queue: Ints, until: Ints) -> Ints:
    """When a bio was last heard of: its request's completions, or its own (bio-based disks)."""
    found = AsOf(done["bio_key"], done["time_ns"]).at_or_before(key, until - 1)
    time = at(done["time_ns"], found)
    return np.where(time >= queue, time, -1)


def _between(window: Window, point: str, key: Ints, queue: Ints, issue: Ints) -> Ints:
    """When the bio's request was at a point between Q and D; -1: it was not seen there."""
    events = window.columns(point, "bio_key")
    found = AsOf(events["bio_key"], events["time_ns"]).at_or_after(key, queue)
    time = at(events["time_ns"], found)
    return np.where((time >= queue) & (time <= issue), time, -1)


def _next_time(keys: Ints, times: Ints) -> Ints:
    """When the same key is used next; the largest int64 where it is not."""
    following = np.full(len(keys), np.iinfo(np.int64).max)
    order = np.lexsort((times, keys))
    same = keys[order[1:]] == keys[order[:-1]]
    following[order[:-1][same]] = times[order[1:][same]]
    return following
