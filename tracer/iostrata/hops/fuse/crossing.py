# SPDX-License-Identifier: Apache-2.0
"""Hop fuse: a request until a daemon has it; it answers within a call of its own."""

from __future__ import annotations

import numpy as np

from iostrata.hops.hop import Held, Link
from iostrata.stitch import SpanList, Spans


def crossing_of(link: Link, held: Held) -> Spans:
    spans, row = SpanList(), np.arange(len(held.ask))
    spans.add(row, "fuse.queue", held.begin_ns, np.minimum(held.first_ns, held.end_ns))
    return spans.collect()
