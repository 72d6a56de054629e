# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: the spans of many pieces in, those of some of the pieces at a time out.

A crowded window has millions of spans, and what is made of each takes several times its room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from iostrata.columns import distinct, order_of

if TYPE_CHECKING:
    from iostrata.stitch import Spans

MOST_SPANS: Final = 1 << 17
"""So many at once, and those of one piece."""


def blocks(spans: Spans, pieces: int) -> Iterator[tuple[int, int, Spans]]:
    """From which piece to which (the end is not of it), and their spans, in the order given.

    ``owner`` of the spans: below ``pieces``, and counted from the block's first piece on.
    """
    if len(spans) <= MOST_SPANS:
        yield 0, pieces, spans
        return
    order = order_of(spans.owner)
    last = np.cumsum(np.bincount(spans.owner, minlength=pieces))
    edges = np.searchsorted(last, np.arange(0, len(spans), MOST_SPANS))
    for first, end in pairwise(distinct(np.append(edges, [0, pieces])).tolist()):
        mine = spans.rows(order[last[first - 1] if first else 0 : last[end - 1]])
        yield first, end, replace(mine, owner=mine.owner - first)
