# SPDX-License-Identifier: Apache-2.0
"""Hop ceph: an OSD's machine in, the operations out that it had others do, of which is not told."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iostrata.columns import AsOf, at, columns_of, distinct
from iostrata.hops.hop import Link
from iostrata.model import NotObserved
from iostrata.stitch import elsewhere, whole


def beyond(link: Link) -> Iterator[NotObserved]:
    """A line for each OSD that did, by kind."""
    pieces = link.lower.pieces.rows(distinct(link.serves.piece[link.pairs.serve]))
    found = elsewhere(whole(link.lower.trace), pieces)
    told = columns_of(link.lower.trace.points["osd_message"], "op_key", "osd_number")
    piece = found.piece
    message = AsOf(told["op_key"], told["time_ns"]).at_or_before(
        pieces.request_key[piece], pieces.begin_ns[piece]
    )
    osd = at(told["osd_number"], message)
    for handed, what, how in (
        (False, "waited for parts of other OSDs", "a pool with erasure coding"),
        (True, "handed on to other OSDs", "a cache tier"),
    ):
        for number, count in zip(
            *np.unique(osd[found.handed == handed], return_counts=True), strict=True
        ):
            verb = "" if not handed else "was " if count == 1 else "were "
            operations = "1 operation" if count == 1 else f"{count} operations"
            reason = f"{operations} {verb}{what} ({how}), which is not followed"
            yield NotObserved(f"osd.{number}" if number >= 0 else "an OSD", reason, "osd.replicas")
