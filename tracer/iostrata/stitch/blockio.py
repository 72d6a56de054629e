# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: bios and requests in, their spans in block queue and device out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, at, overlapping
from iostrata.layers import RANK
from iostrata.stitch.requests import Bios, Requests
from iostrata.stitch.spans import SpanList, Spans


def spans_of_bios(
    bios: Bios, requests: Requests, owner: Ints, journal: NDArray[np.bool_], stacked: Ints
) -> Spans:
    """What each bio did, as spans of its owner (rows with owner -1 are left out).

    ``Spans.of`` is the row of the request that the device had.

    ``journal``: the bio belongs to a journal commit. ``stacked``: device keys that
    pass their requests on to another recorded device: time there is ``block.stacked``.
    """
    spans = SpanList()
    _queue(spans, bios, requests, owner)
    _device(spans, bios, requests, owner, journal, np.isin(bios.device_key, stacked))
    return spans.collect()


def _queue(spans: SpanList, bios: Bios, requests: Requests, owner: Ints) -> None:
    rows = np.flatnonzero((bios.request >= 0) & (owner >= 0))
    owner = owner[rows]
    queue, get, insert = bios.queue_ns[rows], bios.get_ns[rows], bios.insert_ns[rows]
    issue = requests.issue_ns[bios.request[rows]]
    # A bio merged into a request that was inserted before it waits only for the issue.
    has_get, has_insert = get >= 0, insert >= 0
    where = np.where(has_get, get, np.where(has_insert, insert, issue))
    first = np.where(has_get, RANK["block.Q2G"], RANK["block.Q2D"])
    first = np.where(~has_get & has_insert, RANK["block.Q2I"], first)
    spans.add(owner, first.astype(np.int16), queue, where)
    middle = np.where(has_insert, insert, issue)
    second = np.where(has_insert, RANK["block.G2I"], RANK["block.G2D"])
    spans.add(np.where(has_get, owner, -1), second.astype(np.int16), get, middle)
    spans.add(np.where(has_insert, owner, -1), "block.I2D", insert, issue)


def _device(
    spans: SpanList,
    bios: Bios,
    requests: Requests,
    owner: Ints,
    journal: NDArray[np.bool_],
    stacked: NDArray[np.bool_],
) -> None:
    kind = np.where(bios.meta, RANK["device.meta"], RANK["device.data"])
    kind = np.where(journal, RANK["device.journal"], kind)
    kind = np.where(stacked, RANK["block.stacked"], kind).astype(np.int16)
    rows = np.flatnonzero((bios.request >= 0) & (owner >= 0))
    request = bios.request[rows]
    spans.add(
        owner[rows], kind[rows], requests.issue_ns[request], requests.complete_ns[request], request
    )

    # A bio that asked for a flush waits for every flush of its disk that runs until it is
    # complete: one already running must end before its own may start.
    rows = np.flatnonzero(bios.wants_flush & (owner >= 0) & (bios.life_end_ns >= 0))
    flushes = np.flatnonzero(requests.flush)
    pair, other = overlapping(
        bios.device_key[rows],
        bios.queue_ns[rows],
        bios.life_end_ns[rows],
        requests.device_key[flushes],
        requests.issue_ns[flushes],
        requests.complete_ns[flushes],
    )
    bio, flush = rows[pair], flushes[other]
    begin = np.maximum(requests.issue_ns[flush], bios.queue_ns[bio])
    end = np.minimum(requests.complete_ns[flush], bios.life_end_ns[bio])
    rank = np.where(stacked[bio], RANK["block.stacked"], RANK["device.flush"]).astype(np.int16)
    spans.add(owner[bio], rank, begin, end, flush)
    # An empty flush is queued until the last of those flushes was issued.
    issued = np.full(len(bios), -1)
    np.maximum.at(issued, bio, requests.issue_ns[flush])
    empty = np.flatnonzero((bios.request < 0) & bios.wants_flush & (owner >= 0))
    spans.add(owner[empty], "block.Q2D", bios.queue_ns[empty], issued[empty])

    # A disk that has no requests at all (device mapper, memory): from queue to completion.
    bare = np.flatnonzero(
        (bios.request < 0)
        & (bios.life_end_ns >= 0)
        & (owner >= 0)
        & ~np.isin(bios.device_key, requests.disks)
    )
    spans.add(owner[bare], kind[bare], bios.queue_ns[bare], bios.life_end_ns[bare])


def windows_of(bios: Bios, requests: Requests) -> tuple[Ints, Ints]:
    """From when to when each bio was in its device's hands.

    From issue to completion; from Q where it has no request, or asked for a flush.
    """
    issue = at(requests.issue_ns, bios.request)
    waits = (issue < 0) | bios.wants_flush
    return np.where(waits, bios.queue_ns, issue), bios.life_end_ns


def one_by_one(bios: Bios, rows: Ints, requests: Requests) -> Spans:
    """Spans of some bios that no key ties; ``owner`` is the position in ``rows``."""
    none = np.zeros(len(rows), np.bool_)
    return spans_of_bios(
        bios.rows(rows), requests, np.arange(len(rows)), none, np.zeros(0, np.int64)
    )
