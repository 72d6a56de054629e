# SPDX-License-Identifier: Apache-2.0
"""Hop ceph: where a machine's operations were followed to in, the OSDs that nobody recorded out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from iostrata import units
from iostrata.columns import AsOf, Ints, columns_of, distinct, one_of
from iostrata.hops.ceph.asks import asks_of
from iostrata.hops.ceph.entities import CLIENT, OSD, entity, group_of
from iostrata.hops.hop import Link
from iostrata.model import NotObserved
from iostrata.stitch import (
    OSD_OP,
    OSD_REPOP,
    images_of,
    messages_of,
    processes_of,
    suboperations_of,
    whole,
)
from iostrata.trace import ProcessNames, Trace
from iostrata.trace.layout import THREAD_LIBRBD, UNSEEN_LIBRBD

LATE_NS: Final = 1_000_000_000
NOBODY: Final = np.zeros(0, np.int64)
LIBRARY: Final = NotObserved(
    "librbd",
    "what its own programs ask disks of Ceph for by its library, which is no call (looked at where "
    "another machine is recorded, too: --path)",
    "",
)


def not_recorded(upper: Trace, links: Sequence[Link]) -> Iterator[NotObserved]:
    """A line for each OSD that a machine asked for anything, and to which none of its links leads.

    Who only asks is told with its links: without any, none was recorded.
    """
    if links:
        reached = np.any([link.pairs.crossing for link in links], axis=0)
        lost = distinct(links[0].asks.group[~reached])
    else:
        lost = distinct(asks_of(upper).group) if len(upper.points["osd_send"]) else NOBODY
    if not len(lost):
        return
    seen = distinct(np.concatenate([_told_of(trace) for trace in _machines(upper, links)]))
    window = whole(upper)
    answered, copies = (
        window.columns("rbd_answered", "client", "osd_number"),
        suboperations_of(window),
    )
    programs = images_of(window).asked
    for asker, osd, row in (
        (entity(answered["client"], CLIENT), answered["osd_number"], "initiator.call"),
        (entity(copies.osd, OSD), copies.peer, "osd.replicas"),
        (entity(programs.client, CLIENT), programs.osd, "initiator.call"),
    ):
        group = group_of(asker, osd)
        for number in _of_groups(np.setdiff1d(lost, seen), group, osd):
            yield NotObserved(f"osd.{number}", "it was not recorded, or not found", row)
        for number in _of_groups(np.intersect1d(lost, seen), group, osd):
            what = "it was asked for this, and when it answered is not told"
            yield NotObserved(f"osd.{number}", what, row)


def _machines(upper: Trace, links: Sequence[Link]) -> list[Trace]:
    return [upper, *(link.lower.trace for link in links if link.lower.trace is not upper)]


def _told_of(trace: Trace) -> Ints:
    """Groups of what a machine's OSDs were asked for, be it answered or not."""
    parts = [messages_of(whole(trace), "osd_message", kind) for kind in (OSD_OP, OSD_REPOP)]
    told = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return group_of(entity(told["peer"], told["peer_kind"]), told["osd_number"], told["tgid"])


def untold(upper: Trace) -> Iterator[NotObserved]:
    """Which operations a library's requests are made of, and what its cache has answered before an
    OSD had it. What a workload asks of it is looked at soon after it opens a disk, or never."""
    unseen = columns_of(upper.points["unseen"], "kind", "dev")
    of_library = unseen["kind"] == UNSEEN_LIBRBD
    if (of_library & (unseen["dev"] == 0)).any():
        yield LIBRARY
    rows = np.flatnonzero(of_library & (unseen["dev"] != 0))
    yield from _until_looked_at(upper, unseen["dev"][rows], unseen["time_ns"][rows])
    yield from _without_ends(upper)
    made, names = images_of(whole(upper)), ProcessNames(upper)
    asked, by, early = made.asked, made.requests.tgid, made.operations.tgid[made.early]
    for pid in distinct(by).tolist():
        operations = int(np.count_nonzero(asked.tgid == pid))
        (process, _), _ = names.at(np.array([pid]), np.array([upper.end_ns]))
        if count := int(np.count_nonzero(early == pid)):
            what = f"{count} of {operations} operations of {process[0]} were on their way when what"
            what += " they are of was answered: who flushes waits for them"
            yield NotObserved("rbd cache", what, "")
        if count := int(np.count_nonzero((asked.osd < 0) & (asked.tgid == pid))):
            what = f"{count} of {operations} of {process[0]} were sent again: no OSD had answered"
            yield NotObserved("librbd's operations", what, "initiator.call")
        unknown = ~made.known & (made.requests.end_ns >= 0)
        if count := int(np.count_nonzero(unknown & (by == pid))):
            what = f"of {count} of {np.count_nonzero(by == pid)} requests of {process[0]} it is not"
            yield NotObserved(
                "librbd's operations", f"{what} told which these are", "initiator.call"
            )


def _until_looked_at(upper: Trace, pid: Ints, since_ns: Ints) -> Iterator[NotObserved]:
    threads, names = columns_of(upper.points["thread"], "tgid", "kind"), ProcessNames(upper)
    own = np.flatnonzero(threads["kind"] == THREAD_LIBRBD)
    opened_ns = AsOf(threads["tgid"][own], threads["time_ns"][own])
    first = opened_ns.at_or_before(pid, since_ns)
    for row, (number, until_ns) in enumerate(zip(pid.tolist(), since_ns.tolist(), strict=True)):
        (process, _), _ = names.at(np.array([number]), np.array([until_ns]))
        after = "as it opened it"
        if first[row] >= 0:
            took_ns = until_ns - int(threads["time_ns"][own[first[row]]])
            after = f"in the {units.duration(took_ns)} after it opened it"
        yield NotObserved("librbd", f"what {process[0]} asked of a disk of Ceph {after}", "")


def _without_ends(upper: Trace) -> Iterator[NotObserved]:
    """Requests of the workload's programs that were answered, or should have been by far, and
    nothing told when."""
    asked, names = images_of(whole(upper)).requests, ProcessNames(upper)
    late = (asked.end_ns < 0) & (asked.begin_ns < upper.end_ns - LATE_NS)
    some = (asked.again | late) & one_of(asked.tgid, processes_of(upper, THREAD_LIBRBD))
    for number, count in zip(*np.unique(asked.tgid[some], return_counts=True), strict=True):
        (process, _), _ = names.at(np.array([number]), asked.begin_ns[asked.tgid == number][:1])
        what = (
            f"{count} requests of {process[0]} to disks of Ceph: when they ended is not told (it "
            "did not ask how, and the function that it has called then was not looked at yet, or "
            "is in no file; or they never did)"
        )
        yield NotObserved("librbd", what, "")


def _of_groups(lost: Ints, group: Ints, osd: Ints) -> list[int]:
    found: list[int] = distinct(osd[one_of(group, lost) & (osd >= 0)]).tolist()
    return found
