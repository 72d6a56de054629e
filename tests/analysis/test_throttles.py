# SPDX-License-Identifier: Apache-2.0
"""Limits of control groups in synthetic worlds: each in its own row, to the nanosecond."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.model import NotObserved
from iostrata.recording import open_recording
from tests.stitch.test_pauses import PWRITE, asynchronous
from tests.synthetic import O_DSYNC, TASK_UNINTERRUPTIBLE, Request, World, Writer, device, submit

DISK = device(253, 0)
KWORKER = 77


def rows(world: World, path: Path) -> dict[str, int]:
    world.builder.write(path)
    breakdown = analyse(open_recording(path))
    assert breakdown.residual_ns.sum() == 0
    return {
        layer.row: int(times.sum())
        for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True)
    }


@pytest.mark.parametrize(
    ("throttled", "found"),
    [
        (60_000, {"throttle.cpu": 60_000, "wakeup.runqueue": 40_000}),
        # It had begun before the thread could run.
        (250_000, {"throttle.cpu": 100_000}),
        (0, {"wakeup.runqueue": 100_000}),
    ],
)
def test_a_quota_is_apart_from_the_run_queue(
    throttled: int, found: dict[str, int], tmp_path: Path
) -> None:
    world = World()
    writer = Writer(world, 101, DISK, 1_000_000)
    writer.enter()
    writer.cpu(5_000)
    since = writer.now
    writer.preempted(100_000)
    if throttled:
        world.emit("sched_throttled", writer.now, 101, since_ns=since, throttled_ns=throttled,
                   subject_tid=101)  # fmt: skip
    writer.cpu(5_000)
    writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
    assert rows(world, tmp_path / "machine") == {"syscall": 10_000, **found}


@pytest.mark.parametrize("held", [True, False])
def test_what_a_limit_holds_back(held: bool, tmp_path: Path) -> None:
    """The request is queued by a kernel worker, long after its writer fell asleep."""
    world = World()
    writer = Writer(world, 101, DISK, 1_000_000)
    writer.enter()
    writer.cpu(5_000)
    asleep, queued = writer.now, writer.now + 400_000
    request = Request(queue=2_000, scheduler=None, device=50_000)
    submit(world, DISK, KWORKER, queued, request, held=held)
    done = queued + 52_000
    world.emit("sched_resume", done + 3_000, 101, off_ns=asleep, wake_ns=done + 1_000,
               waker_tid=0, state=TASK_UNINTERRUPTIBLE, subject_tid=101, waker_context=2,
               waker_cpu=0)  # fmt: skip
    writer.now = done + 3_000
    writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
    world.builder.write(tmp_path / "machine")
    breakdown = analyse(open_recording(tmp_path / "machine"))
    found = {
        layer.row: int(times.sum())
        for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True)
    }
    expected = {"syscall": 5_000, "wakeup.interrupt": 1_000, "wakeup.runqueue": 2_000,
                "block.Q2D": 2_000, "device.data": 50_000}  # fmt: skip
    assert found == expected | ({"throttle.io": 400_000} if held else {})
    assert int(breakdown.residual_ns.sum()) == (0 if held else 400_000)


@pytest.mark.parametrize("held", [True, False])
def test_that_asynchronous_requests_were_held_back_is_said(held: bool, tmp_path: Path) -> None:
    """Nobody sleeps for them: whose it was that a worker queued, nothing tells."""
    world = asynchronous(PWRITE)
    request = Request(queue=2_000, scheduler=None, device=5_000)
    submit(world, DISK, KWORKER, 80_000, request, held=held, cgroup=4711 * held)
    world.builder.cgroup(4711, "/limited").write(tmp_path / "machine")
    found = analyse(open_recording(tmp_path / "machine"))
    told = [gap for gap in found.quality.not_observed if gap.layer == "limits by io.max"]
    what = "what io.max of /limited held back of libaio's and io_uring's requests"
    assert told == ([NotObserved("limits by io.max", what, "unattributed")] if held else [])
    assert found.residual_ns.sum() > 50_000
