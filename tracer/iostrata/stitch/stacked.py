# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: bios on a stacked device in, what went on below it out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, overlapping
from iostrata.layers import RANK
from iostrata.stitch.blockio import one_by_one, windows_of
from iostrata.stitch.requests import Bios, Requests
from iostrata.stitch.spans import SpanList, Spans
from iostrata.trace.facts import Facts


def stacking(facts: Facts, device_key: Ints) -> tuple[Ints, dict[int, Ints]]:
    """Of the devices that were seen, those that pass requests on, and those below each of them."""
    seen = set(np.unique(device_key).tolist())
    lower_of: dict[int, Ints] = {}
    for block in facts.blocks.values():
        below = {facts.disk_of(key) for key in block.lower_keys} & seen
        if below and block.device_key in seen:
            lower_of[block.device_key] = np.array(sorted(below))
    return np.array(sorted(lower_of), np.int64), lower_of


class Below:
    """Bios that kernel threads queued below a stacked device while it had somebody's bio.

    Nothing but time ties them (a loop device's worker writes a file), but the time
    is that of the one bio above, not of the whole write. ``loose``: the bios that
    no key ties; ``journal``: bios above that belong to a journal.
    """

    def __init__(
        self,
        bios: Bios,
        requests: Requests,
        loose: NDArray[np.bool_],
        journal: NDArray[np.bool_],
        lower_of: Mapping[int, Ints],
    ) -> None:
        self._bios, self._requests = bios, requests
        self._loose, self._journal, self._lower_of = loose, journal, lower_of
        self.tied = np.zeros(len(bios), np.bool_)

    def spans_of(self, owner: Ints) -> Spans:
        """Spans below the bios of each owner; marks what it ties in ``tied``."""
        bios, spans = self._bios, SpanList()
        begin, end = windows_of(bios, self._requests)
        for device, devices in self._lower_of.items():
            above = np.flatnonzero((bios.device_key == device) & (owner >= 0) & (end >= 0))
            below = np.flatnonzero(np.isin(bios.device_key, devices) & self._loose)
            row, other = overlapping(
                np.zeros(len(above), np.int64), begin[above], end[above],
                np.zeros(len(below), np.int64), bios.queue_ns[below], bios.life_end_ns[below],
            )  # fmt: skip
            upper, lower = above[row], below[other]
            self.tied[lower] = True
            alone = one_by_one(bios, lower, self._requests)
            at_upper = upper[alone.owner]
            rank = np.where(alone.rank >= RANK["device.flush"], alone.rank, RANK["lower.queue"])
            log = self._journal[at_upper] & (rank == RANK["device.data"])
            rank = np.where(log, RANK["device.journal"], rank)
            spans.add(
                owner[at_upper],
                rank.astype(np.int16),
                np.maximum(alone.begin_ns, begin[at_upper]),
                np.minimum(alone.end_ns, end[at_upper]),
                alone.of,
            )
        return spans.collect()
