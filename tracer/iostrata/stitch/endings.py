# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what ended, by whom and where: requests, bios, calls and commits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from iostrata import native
from iostrata.columns import AsOf, Ints, at, joined, order_of
from iostrata.stitch.bios import Bios, Carried
from iostrata.stitch.requests import Requests
from iostrata.stitch.rpc import Calls
from iostrata.stitch.window import Columns, Window

# An interrupt that completed a request wakes who waits for it before it does anything else.
SOON_NS: Final = 1_000_000


@dataclass(frozen=True, eq=False)
class Endings:
    """What ended, and on which thread and CPU: one row each.

    ``bio``, ``call``, ``commit``: the row of the one that it is, -1 in the others; a bio's
    is that of the whole one. ``request``: of a bio's, the row of what carried its data.
    ``since_ns``: when the device was done with it, or else it ended. ``itself``: 0 where
    that thread did not end it, but was interrupted.
    """

    tid: Ints
    cpu: Ints
    time_ns: Ints
    since_ns: Ints
    bio: Ints
    request: Ints
    call: Ints
    commit: Ints
    itself: Ints


def endings_of(
    window: Window,
    bios: Bios,
    carried: Carried,
    requests: Requests,
    completed: Columns,
    calls: Calls,
) -> Endings:
    """Completions of requests and bios, of calls, and of journal commits."""
    bare = window.columns("block_bio_complete", "tid", "cpu")
    of_requests = _of_requests if native.LIBRARY is None else _of_requests_in_c
    parts = (
        of_requests(bios, carried, requests, completed),
        _of_block(bare, bios, bios.lives.alone, np.full(len(bare["tid"]), -1)),
        _other("call", calls.end_tid, calls.end_ns),
        _other("commit", window.commits.waker, window.commits.end_ns),
    )
    return Endings(**joined(parts))


def _of_requests(bios: Bios, carried: Carried, requests: Requests, completed: Columns) -> Endings:
    request = np.full(len(completed["time_ns"]), -1)
    ended = np.flatnonzero(requests.completion >= 0)
    request[requests.completion[ended]] = ended
    carrier = np.full(len(requests.key), -1)
    carrier[carried.request[::-1]] = carried.bio[::-1]
    bio = at(carrier, request)
    # What is behind a flush has no request that was issued.
    bio = np.where(bio >= 0, bio, bios.lives.of_requests)
    known = np.flatnonzero(bio >= 0)
    since = _behind_flushes(bios, requests, bio[known], completed["time_ns"][known])
    return replace(_of_block(completed, bios, bio, request), since_ns=since)


def _of_requests_in_c(
    bios: Bios, carried: Carried, requests: Requests, completed: Columns
) -> Endings:
    flushes = np.flatnonzero(requests.flush)
    flushes = flushes[order_of(requests.complete_ns[flushes])]
    tid, cpu, time, since, bio, request, itself = native.end_requests(
        (requests.device_key[flushes], requests.complete_ns[flushes]),
        SOON_NS,
        (requests.completion, requests.complete_ns),
        (bios.wants_flush, bios.device_key, bios.request, bios.root),
        (carried.bio, carried.request),
        (
            completed["tid"], completed["cpu"], completed["time_ns"], bios.lives.of_requests,
            _itself(completed),
        ),
    )  # fmt: skip
    none = np.full(len(tid), -1)
    return Endings(tid, cpu, time, since, bio, request, none, none, itself)


def _itself(events: Columns) -> Ints:
    """A thread of a program completes nothing either, unless it polls for what it asked for
    itself."""
    if "by_kernel_thread" in events:
        return events["by_kernel_thread"]
    return np.ones(len(events["time_ns"]), np.int64)


def _of_block(events: Columns, bios: Bios, bio: Ints, request: Ints) -> Endings:
    known = np.flatnonzero(bio >= 0)
    time, none = events["time_ns"][known], np.full(len(known), -1)
    return Endings(
        events["tid"][known], events["cpu"][known], time, time, bios.root[bio[known]],
        request[known], none, none, _itself(events)[known],
    )  # fmt: skip


def _other(kind: str, tid: Ints, time_ns: Ints) -> Endings:
    none = np.full(len(tid), -1)
    kinds = dict.fromkeys(("bio", "request", "call", "commit"), none)
    kinds[kind] = np.arange(len(tid))
    return Endings(tid, none, time_ns, time_ns, **kinds, itself=np.ones(len(tid), np.int64))


def _behind_flushes(bios: Bios, requests: Requests, ended: Ints, time_ns: Ints) -> Ints:
    """Since when the device was done with some bios: one that asked for a flush ends behind the
    block layer's own request for that."""
    asked = np.flatnonzero(bios.wants_flush[ended])
    data = at(requests.complete_ns, bios.request[ended[asked]])
    later = data < time_ns[asked]
    asked, data = asked[later], data[later]
    bio, time = ended[asked], time_ns[asked]
    flushes = np.flatnonzero(requests.flush)
    last = AsOf(requests.device_key[flushes], requests.complete_ns[flushes])
    flush = at(flushes, last.at_or_before(bios.device_key[bio], time))
    done = at(requests.complete_ns, flush)
    behind = (done > data) & (time - done <= SOON_NS)
    since = time_ns.copy()
    since[asked[behind]] = done[behind]
    return since
