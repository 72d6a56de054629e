# SPDX-License-Identifier: Apache-2.0
"""Hop ceph: where a machine's operations were followed to in, the OSDs that nobody recorded out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from iostrata.columns import Ints, distinct, one_of
from iostrata.hops.ceph.entities import CLIENT, OSD, entity, group_of
from iostrata.hops.hop import Link
from iostrata.model import NotObserved
from iostrata.stitch import image_operations_of, suboperations_of, whole


def not_recorded(links: Sequence[Link]) -> Iterator[NotObserved]:
    """A line for each OSD that a machine asked for anything, and to which no link leads."""
    if not links:
        return
    groups = links[0].asks.group
    reached = np.any([link.pairs.crossing for link in links], axis=0)
    lost = distinct(groups[~reached])
    if not len(lost):
        return
    window = whole(links[0].upper)
    answered, copies = (
        window.columns("rbd_answered", "client", "osd_number"),
        suboperations_of(window),
    )
    programs = image_operations_of(window)
    for asker, osd, row in (
        (entity(answered["client"], CLIENT), answered["osd_number"], "initiator.call"),
        (entity(copies.osd, OSD), copies.peer, "osd.replicas"),
        (entity(programs.client, CLIENT), programs.osd, "initiator.call"),
    ):
        for number in _of_groups(lost, group_of(asker, osd), osd):
            yield NotObserved(f"osd.{number}", "it was not recorded, or not found", row)


def answered_early(links: Sequence[Link]) -> Iterator[NotObserved]:
    """What a library's cache has answered before an OSD had it."""
    made = image_operations_of(whole(links[0].upper)) if links else None
    if made is None:
        return
    early = np.count_nonzero(made.early)
    if early:
        what = f"{early} of {len(made.number)} operations were on their way when what they are of"
        yield NotObserved("rbd cache", f"{what} was answered: who flushes waits for them", "")


def _of_groups(lost: Ints, group: Ints, osd: Ints) -> list[int]:
    found: list[int] = distinct(osd[one_of(group, lost)]).tolist()
    return found
