# SPDX-License-Identifier: Apache-2.0
"""A run that ends before its time: what was measured stays, and says so."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iostrata.errors import LabError
from iostrata.lab.checks import Check, Measured
from iostrata.lab.fault import Strike
from iostrata.lab.pace import Pace
from iostrata.lab.read import read_scenario
from iostrata.lab.record import record
from iostrata.lab.run import RoundResult, planned, run
from iostrata.lab.workload import Witness
from iostrata.record import Plan
from tests.lab.scenarios import document, path_document, write
from tests.lab.test_parts import Heard


def test_rounds_survive_one_that_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rounds(*ignored: Any) -> Iterator[RoundResult]:
        checks = (Check("lost", True, "0", "0"), Check("mean", False, "2 ms", "1 ms"))
        yield RoundResult("fdatasync", tmp_path, None, checks)  # type: ignore[arg-type]
        raise LabError("machine local: it is gone")

    stage = sys.modules[run.__module__]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(stage, "furnished", lambda *ignored: nullcontext())
    monkeypatch.setattr(stage, "_observe", lambda *ignored: None)
    monkeypatch.setattr(stage, "_rounds", rounds)
    told = Heard()
    result = run(read_scenario(write(document(), tmp_path)), "local", told, keep=False)
    assert [each.name for each in result.rounds] == ["fdatasync"]
    assert str(result.broken) == "machine local: it is gone"
    assert not result.passed
    assert told.lines == ["fdatasync: FAILED mean 2 ms; 1 of 3 rounds"]


def test_a_machine_that_is_not_to_be_recorded_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[str] = []

    def recorded(plan: Plan, listener: object) -> SimpleNamespace:
        planned.extend(one.name for one in plan.machines)
        return SimpleNamespace(interrupted_by=None, exit_status=1)

    found = path_document()
    found["machines"].append({"name": "beside", "nested": "host", "recorded": False})
    scenario = read_scenario(write(found, tmp_path))
    one = SimpleNamespace(command=lambda words, limit_s=0: "", name="guest")
    lab = SimpleNamespace(scenario=scenario, pace=Pace(),
                          machines={each.name: one for each in scenario.machines})  # fmt: skip
    stage = sys.modules[record.__module__]
    monkeypatch.setattr(stage, "record_machines", recorded)
    monkeypatch.setattr(stage, "LabTransport", lambda machine: None)
    with pytest.raises(LabError):
        record(lab, next(scenario.rounds()), tmp_path / "r", Heard())  # type: ignore[arg-type]
    assert planned == ["guest", "host", "server"]


def test_what_a_fault_needs_beforehand_is_done_before_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    local = SimpleNamespace(command=done.append, monitor=None, process=None)
    found = document()
    found["faults"][0]["before"] = "echo 0 >online"
    scenario = read_scenario(write(found, tmp_path))

    @contextmanager
    def impending(*ignored: Any, nested: bool) -> Iterator[Strike]:
        yield Strike(lambda strike: None, ThreadPoolExecutor(1))

    def round_of(*ignored: Any, begun: Strike) -> Measured:
        done.append("recorded")
        return Measured(None, Witness(1, 1.0))  # type: ignore[arg-type]

    stage = sys.modules[run.__module__]
    monkeypatch.setattr(stage, "impending", impending)
    monkeypatch.setattr(stage, "_round", round_of)
    lab = SimpleNamespace(scenario=scenario, machines={"local": local}, pace=Pace())
    (workload,) = scenario.rounds()
    stage._struck(lab, workload, scenario.faults[0], tmp_path, Heard())
    assert done == ["echo 0 >online", "recorded"]


def test_an_injection_is_compared_with_a_round_of_its_own_waits(tmp_path: Path) -> None:
    """Each pair one after the other; what is compared shares a round where it can."""
    found = document()
    (first,) = found["injections"]
    found["injections"] += [
        {**first, "name": "another"},
        {**first, "name": "quick", "steady": False},
    ]
    found |= {"steady": {"slow": {"completion_ns": 9}}, "checks": {"pairs": 2}}
    scenario = read_scenario(write(found, tmp_path))
    (workload,) = scenario.rounds()
    assert [each.name for each in planned(scenario, workload, ())] == [
        *("fdatasync", "quick.1", "fdatasync-steady.1", "delay.1", "another.1"),
        *("fdatasync.2", "quick.2", "fdatasync-steady.2", "delay.2", "another.2"),
    ]
    wanted = [each.name for each in planned(scenario, workload, ["delay"])]
    assert wanted == ["fdatasync", *("fdatasync-steady.1", "delay.1"),
                      *("fdatasync-steady.2", "delay.2")]  # fmt: skip
    plain = read_scenario(write(document(), tmp_path))
    assert [each.name for each in planned(plain, workload, ())] == ["fdatasync", "delay"]
