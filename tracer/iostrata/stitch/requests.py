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

from iostrata.stitch.join import AsOf, Ints, integers
from iostrata.trace.read import Trace

OPERATION_MASK: Final = 0xFF
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


def requests_of(trace: Trace) -> Requests:
    """Pairs issue and completion by request pointer; orphans of either kind are left out."""
    issued, completed = trace.points["block_rq_issue"], trace.points["block_rq_complete"]
    key, issue = integers(issued["request_key"]), integers(issued["time_ns"])
    size = integers(issued["size_bytes"])
    complete = np.full(len(key), -1)
    done_key, done = integers(completed["request_key"]), integers(completed["time_ns"])
    done_size = integers(completed["size_bytes"])
    until = _next_time(key, issue)
    # A request that also asked for a flush completes once with its data and once,
    # empty, after the flush; a partial completion is followed by the rest.
    for with_data in (False, True):
        rows = np.flatnonzero((size > 0) == with_data)
        ends = np.flatnonzero((done_size > 0) == with_data)
        found = AsOf(done_key[ends], done[ends]).at_or_before(key[rows], until[rows] - 1)
        time = np.where(found >= 0, done[ends][found], -1) if len(ends) else found
        complete[rows] = np.where(time >= issue[rows], time, -1)
    kept = np.flatnonzero(complete >= 0)
    operation = integers(issued["flags"]) & OPERATION_MASK
    return Requests(
        key=key[kept],
        bio_key=integers(issued["bio_key"])[kept],
        device_key=integers(issued["dev"])[kept],
        sector=integers(issued["sector"])[kept],
        size_bytes=size[kept],
        issue_ns=issue[kept],
        complete_ns=complete[kept],
        flush=((operation == OP_FLUSH) | (size == 0))[kept],
        disks=np.union1d(integers(issued["dev"]), integers(completed["dev"])),
    )


def bios_of(trace: Trace, requests: Requests) -> Bios:
    """Follows each queued bio to the request that carried it and to its completion."""
    queued = trace.points["block_bio_queue"]
    key, queue = integers(queued["bio_key"]), integers(queued["time_ns"])
    device, sector = integers(queued["dev"]), integers(queued["sector"])
    size, flags = integers(queued["size_bytes"]), integers(queued["flags"])
    until = _next_time(key, queue)
    data = np.flatnonzero(~requests.flush)
    found = AsOf(requests.bio_key[data], requests.issue_ns[data]).at_or_after(key, queue)
    request = np.where(found >= 0, data[found], -1) if len(data) else found
    request = np.where((request >= 0) & (size > 0), request, -1)
    stale = (request >= 0) & (_at(requests.issue_ns, request) >= until)
    request[stale] = -1
    _find_merged(request, requests, device, sector, size, queue)
    life_end = _bio_ends(trace, key, queue, until)
    life_end = np.maximum(life_end, np.where(request >= 0, _at(requests.complete_ns, request), -1))
    issue = _at(requests.issue_ns, request)
    return Bios(
        key=key,
        tid=integers(queued["tid"]),
        device_key=device,
        sector=sector,
        size_bytes=size,
        meta=(flags & META) != 0,
        wants_flush=((flags & (FUA | PREFLUSH)) != 0) | ((flags & OPERATION_MASK) == OP_FLUSH),
        kernel_thread=integers(queued["kernel_thread"]) != 0,
        queue_ns=queue,
        get_ns=_between(trace, "block_io_start", key, queue, issue),
        insert_ns=_between(trace, "block_rq_insert", key, queue, issue),
        request=request,
        life_end_ns=life_end,
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


def _bio_ends(trace: Trace, key: Ints, queue: Ints, until: Ints) -> Ints:
    """When a bio was last heard of: its request's completions, or its own (bio-based disks)."""
    end = np.full(len(key), -1)
    for point in ("block_rq_complete", "block_bio_complete"):
        done = trace.points[point]
        times = integers(done["time_ns"])
        found = AsOf(integers(done["bio_key"]), times).at_or_before(key, until - 1)
        time = np.where(found >= 0, _at(times, found), -1)
        end = np.maximum(end, np.where(time >= queue, time, -1))
    return end


def _between(trace: Trace, point: str, key: Ints, queue: Ints, issue: Ints) -> Ints:
    """When the bio's request was at a point between Q and D; -1: it was not seen there."""
    events = trace.points[point]
    times = integers(events["time_ns"])
    found = AsOf(integers(events["bio_key"]), times).at_or_after(key, queue)
    time = np.where(found >= 0, _at(times, found), -1)
    return np.where((time >= queue) & (time <= issue), time, -1)


def _next_time(keys: Ints, times: Ints) -> Ints:
    """When the same key is used next; the largest int64 where it is not."""
    following = np.full(len(keys), np.iinfo(np.int64).max)
    order = np.lexsort((times, keys))
    same = keys[order[1:]] == keys[order[:-1]]
    following[order[:-1][same]] = times[order[1:][same]]
    return following


def _at(values: Ints, rows: Ints) -> Ints:
    """values[rows], -1 where the row is -1 (also when there are no values)."""
    if not len(values):
        return np.full(len(rows), -1)
    return np.where(rows >= 0, values[rows], -1)
