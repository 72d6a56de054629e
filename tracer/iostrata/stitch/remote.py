# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: a window's calls to other machines in, whose each is and what it took out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, at
from iostrata.stitch.committing import owners_of_commits
from iostrata.stitch.elsewhere import spans_elsewhere
from iostrata.stitch.fuse import calls_of
from iostrata.stitch.keyed import owners_by_key
from iostrata.stitch.librbd import spans_of_images, waiting_for_images
from iostrata.stitch.osd import Transactions, spans_of_store, steps_of, transactions_of
from iostrata.stitch.osd import awaited as awaited_of_osds
from iostrata.stitch.owners import Owners
from iostrata.stitch.pages import own_reads
from iostrata.stitch.placed import owners_by_place
from iostrata.stitch.reconnects import Downs, downs_of
from iostrata.stitch.rpc import (
    REQUEST_KEY,
    Calls,
    Hindered,
    owners_of_calls,
    spans_of_calls,
    waits_of,
)
from iostrata.stitch.serving import Service
from iostrata.stitch.spans import SpanList
from iostrata.stitch.stacked import KEY, PLACE, TIME
from iostrata.stitch.wakeup import sleeps_of
from iostrata.stitch.window import Window, whole
from iostrata.trace.layout import NFS_OTHER, NFS_READ


@dataclass(frozen=True, eq=False)
class Remote:
    """``caller``: of each of ``calls`` the piece that waits for it, -1: none; ``tied_by``: which of
    TIED_BY tells that; ``foreign``: whether it is known to be for another request; ``held``: the
    calls as long as they were waited for.

    ``transactions``: those of an OSD's store; ``stored``: as long as they were waited for;
    ``steps``: whom pieces needed on the way from one to the next.
    """

    calls: Calls
    hindered: Hindered
    caller: Ints
    tied_by: Ints
    foreign: NDArray[np.bool_]
    held: Calls
    transactions: Transactions
    stored: Transactions
    steps: Service

    def spans(self, window: Window, first_ask: int) -> SpanList:
        """Of pieces. ``first_ask``: the number of the first call among what was asked for."""
        spans = SpanList()
        spans.extend(spans_of_store(self.stored))
        spans.extend(spans_elsewhere(window, self.transactions))
        spans.extend(spans_of_images(window))
        spans.extend(spans_of_calls(self.held, self.caller, first_ask, self.hindered))
        return spans


def remote_of(window: Window, owners: Owners) -> Remote:
    calls = calls_of(window)
    caller, tied_by = owners_of_calls(calls, owners), np.full(len(calls), KEY)
    foreign = np.zeros(len(calls), np.bool_)
    if REQUEST_KEY in window.trace.points["nfs_call"].fields:
        caller, foreign = owners_by_key(window, calls, caller)
    else:
        by_thread, caller = caller, owners_by_place(window, calls, caller)
        tied_by[caller != by_thread] = PLACE
        placed, caller = caller, owners_of_commits(window.pieces, calls, caller)
        tied_by[caller != placed] = TIME
    reading = calls.operation == NFS_READ
    caller = np.where(reading & ~own_reads(window, caller), -1, caller)
    caller = np.where(_unwaited(window, calls), -1, caller)
    caller = waiting_for_images(window, calls, caller)
    transactions = transactions_of(window)
    stored, held = awaited_of_osds(transactions, calls, caller)
    return Remote(
        calls=calls,
        hindered=Hindered(waits_of(window, calls), whole(window.trace).once(_downs)),
        caller=caller,
        tied_by=tied_by,
        foreign=foreign,
        held=held,
        transactions=transactions,
        stored=stored,
        steps=steps_of(window, transactions, stored, calls, caller),
    )


def _unwaited(window: Window, calls: Calls) -> NDArray[np.bool_]:
    """Which calls that neither write, commit nor read their own thread did not wait for: it did not
    find them ended itself, nor slept until who did let it go."""
    found: NDArray[np.bool_] = (calls.operation == NFS_OTHER) & (calls.end_tid != calls.tid)
    rows = np.flatnonzero(found)
    if len(rows):
        sleeps, end = sleeps_of(window), calls.end_ns[rows]
        sleep = sleeps.resumed.at_or_after(calls.tid[rows], end)
        waited = (at(sleeps.off_ns, sleep) <= end) & (sleep >= 0)
        waited &= at(sleeps.waker, sleep) == calls.end_tid[rows]
        found[rows[waited]] = False
    return found


def _downs(window: Window) -> Downs:
    return downs_of(window.trace)
