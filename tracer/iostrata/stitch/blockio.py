# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: bios and requests in, their spans in block queue and device out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import FEW, AsOf, Ints, at, merged, one_of, outside, overlapping
from iostrata.layers import RANK
from iostrata.stitch.bios import Bios, Carried
from iostrata.stitch.requests import Requests
from iostrata.stitch.spans import Ranks, SpanList, Spans

MOST: Final = 16
"""So many flushes of a disk may run at once at each end of a bio: one for each of its queues."""

QUEUES: Final = ("block.Q2G", "block.Q2I", "block.Q2D", "block.G2I", "block.G2D", "block.I2D")
RANKS: Final = tuple(
    RANK[name]
    for name in (
        *QUEUES, *(f"lower.{name}" for name in QUEUES), "device.data", "device.read",
        "device.meta", "device.journal", "device.flush", "block.stacked",
    )
)  # fmt: skip
"""As C has them."""
LOWER: Final = np.array(
    [RANK.get(f"lower.{name}", number) for name, number in RANK.items()], np.int16
)
"""What a rank is, seen from above a stacked device."""


@dataclass(frozen=True, eq=False)
class Awaited:
    """Which bios wait for which flushes (rows of Bios and Requests), and from when to when.

    Each bio's are in order of their issue.
    """

    bio: Ints
    flush: Ints
    begin_ns: Ints
    end_ns: Ints

    def of(self, owner: Ints) -> Awaited:
        """Of the bios that have an owner (``owner``: of each, below 0: none)."""
        keep = owner[self.bio] >= 0
        if keep.all():
            return self
        return Awaited(*(column[keep] for column in vars(self).values()))


def spans_of_bios(
    bios: Bios,
    requests: Requests,
    carried: Carried,
    awaited: Awaited,
    owner: Ints,
    journal: NDArray[np.bool_],
    stacked: Ints,
) -> SpanList:
    """What each bio did, as spans of its owner (rows with owner -1 are left out).

    ``Spans.of`` is the row of the request that the device had, or was to have.

    ``awaited``: flushes, of all that have an owner, at least. ``journal``: the bio belongs to a
    journal commit. ``stacked``: device keys that
    pass their requests on to another recorded device: time there is ``block.stacked``.
    """
    if native.LIBRARY is None:
        return _spans(bios, requests, carried, awaited, owner, journal, stacked)
    spans = SpanList()
    found = native.spans_of_bios(
        (
            owner, bios.let_go_ns, bios.get_ns, bios.insert_ns, bios.got_ns, bios.life_end_ns,
            bios.request, bios.device_key,
        ),
        (
            bios.wants_flush, bios.lowered, bios.read, bios.meta, bios.discard, journal,
            one_of(bios.device_key, stacked) if len(stacked) else None,
        ),
        (requests.issue_ns, requests.complete_ns, requests.disks),
        (tuple(vars(carried).values()), tuple(vars(awaited).values())),
        RANKS,
    )  # fmt: skip
    spans.extend(Spans(*found))
    if len(stacked):
        spans.extend(between_flushes(bios, requests, carried, awaited, owner))
    return spans


def _spans(
    bios: Bios,
    requests: Requests,
    carried: Carried,
    awaited: Awaited,
    owner: Ints,
    journal: NDArray[np.bool_],
    stacked: Ints,
) -> SpanList:
    spans, kind = SpanList(), kinds_of(bios, journal)
    kind = np.where(one_of(bios.device_key, stacked), RANK["block.stacked"], kind).astype(np.int16)
    mine = owner[carried.bio] >= 0
    carried = Carried(carried.bio[mine], carried.request[mine])
    # Where there are stacked devices, what asks for a flush is told of behind these.
    queued = np.where(bios.wants_flush, -1, owner) if len(stacked) else owner
    _queue(spans, bios, requests, carried, queued)
    _asked(spans, bios, queued)
    _device(spans, bios, requests, carried, owner, kind)
    _flushes(spans, bios, awaited.of(owner), owner, stacked)
    _until_issued(spans, bios, requests, awaited, queued)
    _bare(spans, bios, requests, owner, kind)
    if len(stacked):
        spans.extend(between_flushes(bios, requests, carried, awaited, owner))
    return spans


def kinds_of(bios: Bios, journal: NDArray[np.bool_]) -> Ranks:
    """What the device has of each bio."""
    kind = np.where(bios.read, RANK["device.read"], RANK["device.data"])
    kind = np.where(bios.meta | bios.discard, RANK["device.meta"], kind)
    return np.where(journal, RANK["device.journal"], kind).astype(np.int16)


def _of_queue(rank: Ranks, lowered: NDArray[np.bool_]) -> Ranks:
    """Below a stacked device a queue is deeper than that device."""
    rank = rank.astype(np.int16)
    rank[lowered] = LOWER[rank[lowered]]
    return rank


def _queue(spans: SpanList, bios: Bios, requests: Requests, carried: Carried, owner: Ints) -> None:
    rows, issue = carried.bio, requests.issue_ns[carried.request]
    owner, lower = owner[rows], bios.lowered[rows]
    queue, get, insert = bios.let_go_ns[rows], bios.get_ns[rows], bios.insert_ns[rows]
    # A bio merged into a request that was inserted before it waits only for the issue.
    has_get, has_insert = get >= 0, insert >= 0
    where = np.where(has_get, get, np.where(has_insert, insert, issue))
    first = np.where(has_get, RANK["block.Q2G"], RANK["block.Q2D"])
    first = np.where(~has_get & has_insert, RANK["block.Q2I"], first)
    spans.add(owner, _of_queue(first, lower), queue, where, carried.request)
    if has_get.any():
        middle = np.where(has_insert, insert, issue)
        second = _of_queue(np.where(has_insert, RANK["block.G2I"], RANK["block.G2D"]), lower)
        spans.add(np.where(has_get, owner, -1), second, get, middle, carried.request)
    third = np.full(len(rows), RANK["block.I2D"])
    spans.add(
        np.where(has_insert, owner, -1), _of_queue(third, lower), insert, issue, carried.request
    )


def _asked(spans: SpanList, bios: Bios, owner: Ints) -> None:
    """Nothing but a limit of the queue, or none being free, keeps a bio from a request."""
    slept = np.flatnonzero(bios.got_ns >= 0)
    slept = slept[owner[slept] >= 0]
    if not len(slept):
        return
    rank = _of_queue(np.full(len(slept), RANK["block.Q2G"]), bios.lowered[slept])
    spans.add(owner[slept], rank, bios.let_go_ns[slept], bios.got_ns[slept], bios.request[slept])


def _device(
    spans: SpanList, bios: Bios, requests: Requests, carried: Carried, owner: Ints, kind: Ranks
) -> None:
    bio, request = carried.bio, carried.request
    issue, complete = requests.issue_ns[request], requests.complete_ns[request]
    spans.add(owner[bio], kind[bio], issue, complete, request)


def flushes_awaited(bios: Bios, rows: Ints, requests: Requests) -> Awaited:
    """Which of some bios wait for which flushes.

    A bio that asked for a flush waits for the flushes of its disk that run until it is
    complete: one already running must end before its own may start, before its data and
    behind it (block/blk-flush.c). Of very many it waits for the first and the last ones only:
    what went on between them, it had no part in.
    """
    if native.LIBRARY is not None and len(requests.disks) <= FEW:
        found = native.await_flushes(
            (bios.device_key, bios.queue_ns, bios.life_end_ns),
            bios.wants_flush,
            requests.flush,
            (requests.device_key, requests.issue_ns, requests.complete_ns),
            (rows, requests.disks),
            MOST,
        )
        if found:
            return Awaited(*found)
    return _awaited(bios, rows, requests)


def _awaited(bios: Bios, rows: Ints, requests: Requests) -> Awaited:
    rows = rows[bios.wants_flush[rows] & (bios.life_end_ns[rows] >= 0)]
    flushes = np.flatnonzero(requests.flush)
    pair, other = overlapping(
        bios.device_key[rows],
        bios.queue_ns[rows],
        bios.life_end_ns[rows],
        requests.device_key[flushes],
        requests.issue_ns[flushes],
        requests.complete_ns[flushes],
        MOST,
    )
    bio, flush = rows[pair], flushes[other]
    begin = np.maximum(requests.issue_ns[flush], bios.queue_ns[bio])
    end = np.minimum(requests.complete_ns[flush], bios.life_end_ns[bio])
    return Awaited(bio, flush, begin, end)


def flushes_for(bios: Bios, requests: Requests) -> tuple[Ints, Ints]:
    """Which flushes serve which bios: bio, request; one may serve many (block/blk-flush.c).

    Each is for all who had asked for one by its issue: before the data of such a bio, and
    again behind it.
    """
    flushes = np.flatnonzero(requests.flush)
    following = AsOf(requests.device_key[flushes], requests.issue_ns[flushes])
    asked = np.flatnonzero(bios.wants_flush & (bios.life_end_ns >= 0))
    data = bios.request[asked]
    pairs: list[tuple[Ints, Ints]] = []
    for since in (bios.queue_ns[asked], at(requests.complete_ns, data)):
        flush = at(flushes, following.at_or_after(bios.device_key[asked], since))
        issue, complete = at(requests.issue_ns, flush), at(requests.complete_ns, flush)
        serves = (since >= 0) & (flush >= 0) & (issue < bios.life_end_ns[asked])
        # The first one is over before the data is issued, if it was for that.
        begun = at(requests.issue_ns, data)
        serves &= (begun < 0) | (begun < since) | (begun >= complete)
        pairs.append((asked[serves], flush[serves]))
    return np.concatenate([bio for bio, _ in pairs]), np.concatenate([one for _, one in pairs])


def _flushes(spans: SpanList, bios: Bios, awaited: Awaited, owner: Ints, stacked: Ints) -> None:
    bio, flush = awaited.bio, awaited.flush
    passed_on = one_of(bios.device_key[bio], stacked)
    rank = np.where(passed_on, RANK["block.stacked"], RANK["device.flush"]).astype(np.int16)
    spans.add(owner[bio], rank, awaited.begin_ns, awaited.end_ns, flush)


def _until_issued(
    spans: SpanList, bios: Bios, requests: Requests, awaited: Awaited, owner: Ints
) -> None:
    """What asks for a flush is queued until the last of those flushes was issued: data, too,
    before and after it is written."""
    last = np.full(len(bios), -1)
    last[awaited.bio] = awaited.flush
    asked = np.flatnonzero(bios.wants_flush & (owner >= 0))
    rank = _of_queue(np.full(len(asked), RANK["block.Q2D"]), bios.lowered[asked])
    issued = at(requests.issue_ns, last[asked])
    spans.add(owner[asked], rank, bios.let_go_ns[asked], issued, last[asked])


def between_flushes(
    bios: Bios, requests: Requests, carried: Carried, awaited: Awaited, owner: Ints
) -> Spans:
    """How long what asks for a flush was queued, but for when the disk had its data, or a flush
    that it waits for: what is below a stacked disk has that from above, too."""
    whole, spans = SpanList(), SpanList()
    which = np.where(bios.wants_flush & (owner >= 0), np.arange(len(bios)), -1)
    mine = which[carried.bio] >= 0
    carried, awaited = Carried(carried.bio[mine], carried.request[mine]), awaited.of(which)
    _queue(whole, bios, requests, carried, which)
    _asked(whole, bios, which)
    _until_issued(whole, bios, requests, awaited, which)
    queued = whole.collect()
    bio, begin, end = merged(
        np.concatenate([awaited.bio, carried.bio]),
        np.concatenate([awaited.begin_ns, requests.issue_ns[carried.request]]),
        np.concatenate([awaited.end_ns, requests.complete_ns[carried.request]]),
    )
    row, busy = overlapping(queued.owner, queued.begin_ns, queued.end_ns, bio, begin, end)
    begin = np.maximum(begin[busy], queued.begin_ns[row])
    end = np.minimum(end[busy], queued.end_ns[row])
    row, begin, end = outside(queued.begin_ns, queued.end_ns, row, begin, end)
    spans.add(owner[queued.owner[row]], queued.rank[row], begin, end, queued.of[row])
    return spans.collect()


def _bare(spans: SpanList, bios: Bios, requests: Requests, owner: Ints, kind: Ranks) -> None:
    """A disk that has no requests at all (device mapper, memory): from queue to completion."""
    bare = np.flatnonzero(is_bare(bios, requests) & (owner >= 0))
    spans.add(owner[bare], kind[bare], bios.let_go_ns[bare], bios.life_end_ns[bare])


def is_bare(bios: Bios, requests: Requests) -> NDArray[np.bool_]:
    """Whether the device completed a bio itself, without a request."""
    bare = (bios.request < 0) & (bios.life_end_ns >= 0)
    some = np.flatnonzero(bare)
    bare[some] = ~one_of(bios.device_key[some], requests.disks)
    return bare


def windows_of(bios: Bios, requests: Requests) -> tuple[Ints, Ints]:
    """From when to when each bio was in its device's hands.

    From issue to completion; from Q where it has no request, or asked for a flush.
    """
    issue = at(requests.issue_ns, bios.request)
    waits = (issue < 0) | bios.wants_flush
    return np.where(waits, bios.queue_ns, issue), bios.life_end_ns
