# SPDX-License-Identifier: Apache-2.0
"""Hop virtiofs: when the daemon's threads were at requests."""

from __future__ import annotations

import numpy as np

from iostrata.columns import Ints, columns_of
from iostrata.hops.hop import Link
from iostrata.stitch import Pieces

Times = tuple[Ints, Ints]
"""Threads, and when."""


def busy_of(link: Link, pieces: Pieces) -> tuple[Times, Times]:
    """When threads took a request up; and when they had answered one.

    Of a daemon that tells of no request, its calls are.
    """
    points = link.lower.trace.points
    begun, ended = (columns_of(points[f"virtiofs_{name}"], "tid") for name in ("request", "reply"))
    own = np.setdiff1d(pieces.tid, begun["tid"])
    calls = columns_of(points["syscall"], "tid", "enter_ns")
    mine = np.isin(calls["tid"], own)
    who = calls["tid"][mine]
    return (
        (np.append(begun["tid"], who), np.append(begun["time_ns"], calls["enter_ns"][mine])),
        (np.append(ended["tid"], who), np.append(ended["time_ns"], calls["time_ns"][mine])),
    )
