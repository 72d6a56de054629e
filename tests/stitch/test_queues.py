# SPDX-License-Identifier: Apache-2.0
"""Many threads queue for one lock, each of which the next one lets go: all of it is told, up to
so many, and that there were more."""

from __future__ import annotations

import pytest

from iostrata import native
from iostrata.model import Breakdown
from iostrata.stitch import chain, wakers
from tests.stitch.test_truth import analysed, conserves
from tests.synthetic import CALLS, O_DSYNC, World, device

DISK = device(8, 0)
HOLDS_NS, WAKES_NS, RUNS_NS = 10_000, 1_000, 500
THREADS = range(100, 100 + 300)


def queue(threads: range = THREADS) -> World:
    """All come at once; the first has the lock, and each lets the next one go as it leaves."""
    world = World()
    let_go = 1_000
    for tid in threads:
        world.target(tid)
        begin = 1_000 + (tid - threads[0])
        if tid > threads[0]:
            world.emit("sched_resume", let_go + RUNS_NS, tid, off_ns=begin + 100, wake_ns=let_go,
                       waker_tid=tid - 1, waker_context=1, state=2, subject_tid=tid)  # fmt: skip
        end = let_go + RUNS_NS + HOLDS_NS
        let_go = end - WAKES_NS
        world.emit("syscall", end, tid, enter_ns=begin, call=CALLS["pwrite64"], tgid=tid,
                   size_bytes=512, result=512, open_flags=O_DSYNC, inode=12, dev=DISK)  # fmt: skip
    return world


def rows(breakdown: Breakdown) -> dict[str, int]:
    """Of the last write."""
    last = int(breakdown.writes.end_ns.argmax())
    found = {
        layer.row: int(times[last])
        for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True)
    }
    return found | {"unattributed": int(breakdown.residual_ns[last])}


@pytest.fixture(params=["c", "numpy"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "numpy":
        monkeypatch.setattr(native, "LIBRARY", None)
    return str(request.param)


def test_a_long_queue_is_followed_to_its_begin(by: str) -> None:
    breakdown = analysed(queue())
    conserves(breakdown)
    found = rows(breakdown)
    ahead = len(THREADS) - 1
    assert found["unattributed"] == 0
    assert found["wakeup.runqueue"] == ahead * RUNS_NS
    # But the first 400 ns, in which it had not come to the lock yet.
    assert found["lock"] == ahead * (HOLDS_NS - WAKES_NS) + RUNS_NS - (ahead + 100)
    assert not [gap for gap in breakdown.quality.not_observed if gap.layer == "long queues"]


def test_a_queue_that_is_too_long_is_told(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (chain, wakers):
        monkeypatch.setattr(module, "FOLLOWED", 20)
    breakdown = analysed(queue())
    conserves(breakdown)
    assert rows(breakdown)["unattributed"] > 0
    (gap,) = [gap for gap in breakdown.quality.not_observed if gap.layer == "long queues"]
    assert gap.reason.startswith(f"{len(THREADS) - 1 - 20} waits were behind more than")
    assert gap.merged_into == "unattributed"
