# SPDX-License-Identifier: Apache-2.0
"""What a quota takes of a wait for a CPU is a row of its own, whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from types import ModuleType

import numpy as np
import pytest

from iostrata.model import Breakdown
from iostrata.stitch import Sleeps
from tests.stitch import test_serving, test_uring
from tests.stitch.test_truth import accounts
from tests.synthetic import World

COLLECTOR = test_uring.test_who_collects_several_at_once_waits_for_a_cpu_for_each
WORKER = test_uring.test_what_a_worker_runs_is_its_request_s_whoever_completes_it
NEXT = test_uring.test_what_waits_for_a_worker_waits_for_what_that_waits_for
CHAINED = test_uring.test_a_worker_copies_before_its_file_system_syncs
LOOP = test_serving.test_a_loop_devices_worker_that_has_no_cpu
LATE = test_serving.test_who_completes_what_is_stacked_and_has_no_cpu


@pytest.mark.parametrize(
    ("module", "case"),
    [
        (test_uring, COLLECTOR),
        (test_uring, WORKER),
        (test_uring, NEXT),
        (test_uring, CHAINED),
        (test_serving, LOOP),
        (test_serving, LATE),
    ],
    ids=["collector", "worker", "next", "chained", "loop", "late"],
)
@pytest.mark.parametrize("part", [1, 2])
def test_all_or_half_of_it(
    module: ModuleType, case: Callable[[], None], part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each world as it is, but that a quota was why: what waited for a CPU, did for that."""
    emit, kept_ns = World.emit, []

    def kept(world: World, point: str, time_ns: int, tid: int, **fields: int | bytes) -> None:
        emit(world, point, time_ns, tid, **fields)
        since = fields.get("wake_ns") or fields.get("off_ns")
        if point == "sched_resume" and isinstance(since, int) and since < time_ns:
            emit(world, "sched_throttled", time_ns, tid, subject_tid=tid, since_ns=since,
                 throttled_ns=(time_ns - since) // part, cgroup=4711)  # fmt: skip

    def without_quota(breakdown: Breakdown) -> dict[int, list[dict[str, int]]]:
        found = accounts(breakdown)
        for account in (account for of_one in found.values() for account in of_one):
            assert part > 1 or "wakeup.runqueue" not in account
            kept_ns.append(account.pop("throttle.cpu", 0))
            account["wakeup.runqueue"] = account.get("wakeup.runqueue", 0) + kept_ns[-1]
        return found

    monkeypatch.setattr(World, "emit", kept)
    monkeypatch.setattr(module, "accounts", without_quota)
    case()
    assert any(kept_ns)


def test_what_is_left_of_a_wait_was_kept_as_long() -> None:
    """Until 60 a quota kept it, and until 100 others: that is so from 30 and from 80 on, too."""
    none = np.zeros(1, np.int64)
    columns = dict.fromkeys((column.name for column in fields(Sleeps)), none)
    whole = Sleeps(**columns | {"off_ns": none, "on_ns": none + 100, "throttled_ns": none + 60})
    assert [whole.since(none + time).released_ns.tolist() for time in (0, 30, 80)] == [
        [60], [60], [80]
    ]  # fmt: skip
