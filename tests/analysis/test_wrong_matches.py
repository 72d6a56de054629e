# SPDX-License-Identifier: Apache-2.0
"""Recorded on a real path: what the hops tied together bears the same place on every machine.

The hop to the server goes by xid alone, so that the places are evidence of their own.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import Path as MachinesPath
from iostrata.analysis import prepare
from iostrata.columns import AsOf, Containing, Ints, columns_of
from iostrata.hops.hop import Link
from iostrata.recording import open_recording

RECORDINGS = Path(__file__).parents[1] / "recordings"


def link_of(path: MachinesPath, hop: str) -> Link:
    return next(link for link in path.links if link.hop.name == hop)


def places_at_the_server(path: MachinesPath) -> tuple[Link, Ints, Ints]:
    """The client's link to its server; of each tied call, its place here and there, in bytes."""
    link = link_of(path, "nfs")
    made = columns_of(link.upper.points["nfs_call"], "call_key", "offset_bytes")
    call = AsOf(made["call_key"], made["time_ns"]).at_or_before(
        link.asks.identity[link.pairs.ask], link.asks.begin_ns[link.pairs.ask]
    )
    there = link.serves.offset_bytes[link.pairs.serve]
    return link, made["offset_bytes"][call], there


@pytest.mark.parametrize("name", ["nfs", "kvm_nfs"])
def test_calls_are_served_at_their_place(name: str) -> None:
    path = prepare(open_recording(RECORDINGS / name)).path
    link, here, there = places_at_the_server(path)
    assert len(here) >= 50
    assert len(link.pairs.ask) >= 0.99 * len(link.asks)
    assert here.tolist() == there.tolist()


def test_requests_of_the_guest_reach_the_server_at_their_place() -> None:
    """From the guest's sector over the VMM's call and the client's RPC to the server."""
    path = prepare(open_recording(RECORDINGS / "kvm_nfs")).path
    virtio = link_of(path, "virtio")
    link, here, there = places_at_the_server(path)
    made = columns_of(virtio.lower.trace.points["nfs_call"], "tid", "call_key")
    call = AsOf(made["call_key"], made["time_ns"]).at_or_before(
        link.asks.identity[link.pairs.ask], link.asks.begin_ns[link.pairs.ask]
    )
    pieces = virtio.lower.pieces
    piece = Containing(pieces.tid, pieces.begin_ns, pieces.end_ns).find(
        made["tid"][call], made["time_ns"][call]
    )
    data = ~virtio.asks.shared[virtio.pairs.ask]
    asked = virtio.pairs.ask[data]
    of_piece = dict(
        zip(virtio.serves.piece[virtio.pairs.serve[data]].tolist(), asked.tolist(), strict=True)
    )
    issued = columns_of(
        virtio.upper.points["block_rq_issue"], "request_key", "sector", "size_bytes"
    )
    request = AsOf(issued["request_key"], issued["time_ns"]).at_or_before(
        virtio.asks.identity, virtio.asks.begin_ns
    )
    begin = issued["sector"][request] * 512
    end = begin + issued["size_bytes"][request]
    followed = set()
    for row in np.flatnonzero(piece >= 0).tolist():
        ask = of_piece.get(int(piece[row]))
        if ask is not None:
            # The client may make several calls of one request.
            assert begin[ask] <= here[row] == there[row] < end[ask]
            followed.add(ask)
    assert len(followed) >= 0.99 * len(asked)
