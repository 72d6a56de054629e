# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: the pieces' spans in, who held each of their instants out.

The same rule as the sweep's (the deepest rank at work holds the time), with the
times kept: what ``attribute`` adds up, ``segments`` shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iostrata.attribute.sweep import sweep
from iostrata.columns import Ints, changes, joined

if TYPE_CHECKING:
    from iostrata.stitch import Spans

NOBODY = -1


def segments(spans: Spans, begin_ns: Ints, end_ns: Ints) -> Spans:
    """Exclusive spans that cover each piece from begin to end, in order of piece and time.

    ``owner`` indexes ``begin_ns``/``end_ns``; ``rank`` is ``NOBODY`` where no span
    of the piece was at work. Neighbours of one rank are one segment.
    """
    # Whoever has spans has loaded it.
    from iostrata.stitch import Spans  # noqa: PLC0415

    pieces = len(begin_ns)
    # Each piece is a span of its own, of a rank below all others.
    nobody = Spans(
        np.arange(pieces),
        np.full(pieces, NOBODY, np.int32),
        begin_ns,
        end_ns,
        np.full(pieces, -1),
    )
    held = sweep(Spans(**joined([nobody, spans])), begin_ns, end_ns)
    some = held.until_ns > held.since_ns
    owner, level = held.owner[some], held.level[some]
    opens = np.flatnonzero(changes(owner) | changes(level))
    closes = np.append(opens[1:], len(owner))[: len(opens)] - 1
    return Spans(
        owner[opens],
        held.ranks[level[opens]].astype(np.int32),
        held.since_ns[some][opens],
        held.until_ns[some][closes],
        np.full(len(opens), -1),
    )
