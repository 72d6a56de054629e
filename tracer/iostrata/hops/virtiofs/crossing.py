# SPDX-License-Identifier: Apache-2.0
"""Hop virtiofs: from the guest's file system to the daemon's thread, and back."""

from __future__ import annotations

import numpy as np

from iostrata.hops.hop import Held, Link
from iostrata.stitch import SpanList, Spans


def crossing_of(link: Link, held: Held) -> Spans:
    spans, row = SpanList(), np.arange(len(held.ask))
    first = np.minimum(held.first_ns, held.end_ns)
    spans.add(row, "virtiofs.there", held.begin_ns, first)
    spans.add(row, "virtiofs.back", np.maximum(held.last_ns, held.begin_ns), held.end_ns)
    return spans.collect()
