# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a trace in, a line for each disk of a network's whose driver gave requests back
out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iostrata import units
from iostrata.analysis.networks import network_of
from iostrata.columns import NEVER, AsOf, one_of
from iostrata.stitch import requests_of, whole
from iostrata.trace import Trace


def given_back(trace: Trace) -> Iterator[str]:
    """Mostly as its connection ended. From then on they are queued, as by nothing of this machine's
    own: the row has no other cause of it.
    """
    blocks = trace.facts.blocks
    disks = {key: found[0] for key, block in blocks.items() if (found := network_of(block))}
    if not disks or not len(trace.points["block_rq_requeue"]):
        return
    requests = requests_of(whole(trace))[0]
    again = AsOf(requests.key, requests.issue_ns).following()
    for key, kind in disks.items():
        rows = np.flatnonzero(requests.returned & one_of(requests.device_key, [key]))
        if len(rows):
            issued = again[rows] != NEVER
            what = "request" if len(rows) == 1 else units.plural("request")
            words = [f"{len(rows)} {what} given back by its driver"]
            if issued.any():
                waited_ns = int((again[rows] - requests.complete_ns[rows])[issued].max())
                words.append(f"issued again after {units.duration(waited_ns)} at most: block.Q2D")
            yield f"{blocks[key].name} ({kind}): {', '.join(words)}"
