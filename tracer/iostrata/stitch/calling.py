# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: calls of loop devices' workers in, the requests that they were made for out.

A loop device's file may be on a network's file system, or on one in user space. What its worker
asks there bears no key of the request above. It is for the one that has the place in it; where
the file is not the disk from its first byte on, and where it has no place, for the first that has
to wait for it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import AsOf, Containing, Ints, at, distinct, pair_key
from iostrata.stitch.owners import Syncs
from iostrata.stitch.requests import Requests
from iostrata.stitch.rpc import Calls
from iostrata.stitch.serving import LoopWork
from iostrata.stitch.stacked import Workers

SECTOR: Final = 512
SEARCH: Final = 64
"""How many requests that are not complete yet are looked at."""


def requests_called_for(
    calls: Calls, work: LoopWork, syncs: Syncs, workers: Workers, requests: Requests
) -> Ints:
    """Of each call, the row of the request on a loop device that it is for; -1: of none.

    A call of another thread's is for the flush whose worker syncs that file meanwhile.
    """
    found = np.full(len(calls), -1)
    if not len(work.tid) and not len(workers.sync):
        return found
    run = Containing(work.tid, work.begin_ns, work.end_ns).find(calls.tid, calls.begin_ns)
    device = at(work.device_key, run)
    for key in distinct(device[run >= 0]).tolist():
        mine = np.flatnonzero((run >= 0) & (device == key))
        rows = np.flatnonzero((requests.device_key == key) & ~requests.returned)
        found[mine] = _of_device(calls.rows(mine), rows, requests)
    sync, request = workers.sync, workers.request
    file = pair_key(syncs.device_key[sync], syncs.inode[sync])
    wanted = pair_key(calls.device_key, calls.inode)
    last = AsOf(file, workers.begin_ns).at_or_before(wanted, calls.end_ns)
    waits = (found < 0) & (last >= 0) & (at(workers.end_ns, last) >= calls.end_ns)
    return np.where(waits, at(request, last), found)


def _of_device(calls: Calls, rows: Ints, requests: Requests) -> Ints:
    """``rows``: of the device's requests, in order of issue."""
    found = _first(calls, rows, requests, placed=True)
    left = np.flatnonzero(found < 0)
    found[left] = _first(calls.rows(left), rows, requests, placed=False)
    return found


def _first(calls: Calls, rows: Ints, requests: Requests, *, placed: bool) -> Ints:
    """The first request that was there as each call was made, and until it ended.

    ``placed``: that has the call's place in it.
    """
    found, left = np.full(len(calls), -1), np.arange(len(calls))
    reach = np.maximum.accumulate(requests.complete_ns[rows])
    place = np.searchsorted(reach, calls.end_ns)
    for _ in range(SEARCH):
        there = place < len(rows)
        there[there] = requests.issue_ns[rows[place[there]]] <= calls.begin_ns[left[there]]
        left, place = left[there], place[there]
        if not len(left):
            break
        request = rows[place]
        mine = requests.complete_ns[request] >= calls.end_ns[left]
        if placed:
            begin = requests.sector[request] * SECTOR
            offset, size = calls.offset_bytes[left], calls.size_bytes[left]
            mine &= (size > 0) & (begin <= offset)
            mine &= offset + size <= begin + requests.size_bytes[request]
        else:
            mine &= requests.flush[request] == (calls.size_bytes[left] == 0)
        found[left[mine]] = request[mine]
        left, place = left[~mine], place[~mine] + 1
    return found
