# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a trace in, a line for each disk of a network's whose driver gave requests back,
or their bios to another path, or that took none for a while, out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from iostrata import units
from iostrata.analysis.networks import network_of
from iostrata.columns import NEVER, AsOf, Ints, at, columns_of, one_of
from iostrata.stitch import Requests, requests_of, whole
from iostrata.trace import Trace

LONG_NS: Final = 100_000_000
"""For so long nothing is issued to an idle disk but for a reason of its own: a session that is
away, a queue that is frozen."""


def given_back(trace: Trace) -> Iterator[str]:
    """Mostly as its connection ended. From then on they are queued, as by nothing of this machine's
    own: the row has no other cause of it.
    """
    blocks = trace.facts.blocks
    disks = {key: found[0] for key, block in blocks.items() if (found := network_of(block))}
    # One controller's way to a disk (nvme0c0n1), whose numbers sysfs tells nobody: the kernel hides
    # it (8ddcd653257c, "block: introduce GENHD_FL_HIDDEN").
    paths = trace.points["nvme_complete_rq"].values("dev") - blocks.keys()
    disks |= dict.fromkeys(sorted(paths), "a path of NVMe over TCP")
    if not disks.keys() & trace.points["block_rq_issue"].values("dev"):
        return
    requests = requests_of(whole(trace))[0]
    back = columns_of(trace.points["block_rq_requeue"], "request_key")
    last = AsOf(back["request_key"], back["time_ns"])
    row = last.at_or_before(requests.key, requests.complete_ns)
    requeued = at(back["time_ns"], row) == requests.complete_ns
    again = AsOf(requests.key, requests.issue_ns).following()
    for key, kind in disks.items():
        every = one_of(requests.device_key, [key])
        mine = requests.returned & every
        words = [
            *_issued_again(requests.complete_ns, again, np.flatnonzero(mine & requeued)),
            *_handed_on(np.flatnonzero(mine & ~requeued)),
        ]
        if key in paths and "failed" in trace.points["nvme_complete_rq"].fields:
            words += _not_flushed(trace, requests, np.flatnonzero(every & requests.flush))
        if not words:
            words = [*_held(trace, requests, np.flatnonzero(every), key in paths)]
        if words:
            yield f"{trace.facts.device_name(key)} ({kind}): {', '.join(words)}"


def _issued_again(complete_ns: Ints, again_ns: Ints, rows: Ints) -> Iterator[str]:
    if not len(rows):
        return
    yield f"{_count(rows)} given back by its driver"
    issued = again_ns[rows] != NEVER
    if issued.any():
        waited_ns = int((again_ns[rows] - complete_ns[rows])[issued].max())
        yield f"issued again after {units.duration(waited_ns)} at most: block.Q2D"


def _handed_on(rows: Ints) -> Iterator[str]:
    if len(rows):
        yield f"{_count(rows)} not carried out, for another path: block.stacked until then"


def _not_flushed(trace: Trace, requests: Requests, rows: Ints) -> Iterator[str]:
    """Flushes that were refused, or not answered, and ended as if they had been done.

    Where a path fails, Linux hands its requests' bios on to another one, and ends the requests
    themselves without an error (nvme_failover_req); the block layer's own flush has no bio.

    ``rows``: a path's flushes.
    """
    answers = columns_of(trace.points["nvme_complete_rq"], "request_key", "failed")
    last = AsOf(answers["request_key"], answers["time_ns"])
    row = last.at_or_before(requests.key[rows], requests.complete_ns[rows])
    mine = at(answers["time_ns"], row) >= requests.issue_ns[rows]
    gone = rows[mine & (row >= 0) & (at(answers["failed"], row) != 0)]
    ends = columns_of(trace.points["block_rq_complete"], "request_key", "error")
    row = AsOf(ends["request_key"], ends["time_ns"]).at_or_after(
        requests.key[gone], requests.complete_ns[gone]
    )
    if count := int(np.count_nonzero(at(ends["error"], row) == 0)):
        flushes, were = ("flush", "it was") if count == 1 else ("flushes", "they were")
        yield f"{count} {flushes} not carried out, and whoever waited was told that {were} done"


def _held(trace: Trace, requests: Requests, rows: Ints, a_path: bool) -> Iterator[str]:
    """A driver takes none while its session is away, also if nothing was under way as that went.

    ``rows``: all of a disk's, in order of issue. ``a_path``: what waits for it is above it.
    """
    issue, last = requests.issue_ns[rows], np.maximum.accumulate(requests.complete_ns[rows])
    idle_ns = np.append(0, last[:-1])
    some = np.flatnonzero(issue - idle_ns >= LONG_NS)
    if not len(some):
        return
    bios = columns_of(trace.points["block_bio_queue"], "bio_key")
    queue = AsOf(bios["bio_key"], bios["time_ns"])
    queued = queue.at_or_before(requests.bio_key[rows[some]], issue[some])
    waited = issue[some] - np.maximum(at(bios["time_ns"], queued), idle_ns[some])
    held = waited[(queued >= 0) & (waited >= LONG_NS)]
    if len(held):
        longest = f"for {units.duration(int(held.max()))} at most"
        where = "that is in block.stacked" if a_path else "that is in block.Q2D"
        yield f"{_count(held)} waited with none under way, {longest}: {where}"


def _count(rows: Ints) -> str:
    return f"{len(rows)} {'request' if len(rows) == 1 else units.plural('request')}"
