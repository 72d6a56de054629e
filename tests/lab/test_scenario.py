# SPDX-License-Identifier: Apache-2.0
"""Scenarios: those that come with iostrata are sound, and a wrong key is named with its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from iostrata.lab.kernels import SUITES
from iostrata.lab.read import ScenarioError, find_scenario, read_scenario, scenarios
from iostrata.lab.scenario import with_kernel, with_keys
from iostrata.lab.steps import NullBlock
from iostrata.record.diagnosis import SIGHTS
from tests.lab.scenarios import document, write


@pytest.mark.parametrize("name", scenarios())
def test_scenarios_that_come_with_iostrata(name: str) -> None:
    scenario, found = find_scenario(name)
    assert found == name
    assert {machine.kernel for machine in scenario.machines} <= set(SUITES)
    assert set(scenario.checks.observed) <= {sight.layer for sight in SIGHTS}


def test_a_scenario_is_read(tmp_path: Path) -> None:
    scenario = read_scenario(write(document(), tmp_path))
    assert scenario.machines[0].disks[0].size_mib == 1024
    assert isinstance(scenario.stack[0], NullBlock)
    assert scenario.checks.residual == 0.02
    assert scenario.checks.analysed == 0.999


def test_another_kernel_for_every_machine(tmp_path: Path) -> None:
    scenario = with_kernel(read_scenario(write(document(), tmp_path)), "7.2")
    assert [machine.kernel for machine in scenario.machines] == ["7.2"]


def test_an_injection_replaces_keys_of_its_step_only(tmp_path: Path) -> None:
    scenario = read_scenario(write(document(), tmp_path))
    injection = scenario.injections[0]
    slow, ext4 = with_keys(scenario.stack, {injection.step: injection.replace})
    assert isinstance(slow, NullBlock)
    assert slow.completion_ns == 3_010_000
    assert slow == msgspec.structs.replace(scenario.stack[0], completion_ns=3_010_000)
    assert ext4 == scenario.stack[1]


Spoil = Callable[[dict[str, Any]], object]
WRONG: dict[str, tuple[Spoil, str, str]] = {
    "unknown key": (
        lambda found: found["machines"][0].update(cpu=2),
        "machines[0]: unknown key `cpu`",
        "did you mean cpus?",
    ),
    "key that is like no other": (
        lambda found: found.update(zzz=2),
        "top level: unknown key `zzz`",
        "known keys: ",
    ),
    "missing key": (
        lambda found: found["machines"][0].pop("name"),
        "machines[0]: Object missing required field `name`",
        "local",
    ),
    "wrong type": (
        lambda found: found["machines"][0].update(cpus="two"),
        "machines[0].cpus: Expected `int`, got `str`",
        "local",
    ),
    "impossible number": (
        lambda found: found["machines"][0].update(cpus=0),
        "machines[0].cpus: Expected `int` >= 1",
        "local",
    ),
    "unknown kind": (
        lambda found: found["stack"][0].update(kind="tape"),
        "stack[0].kind: Invalid value 'tape'",
        "local",
    ),
    "no machine": (
        lambda found: found.update(machines=[]),
        "machines: Expected `array` of length >= 1",
        "local",
    ),
    "two machines of one name": (
        lambda found: found["machines"].append({"name": "local"}),
        "machines: 2 are named local",
        "name of its own",
    ),
    "a step on an unknown machine": (
        lambda found: found["stack"][0].update(machine="locla"),
        "stack[0].machine: there is no machine locla",
        "did you mean local?",
    ),
    "a file system on an unknown device": (
        lambda found: found["stack"][1].update(device="fast"),
        "stack[1].device: there is no device fast",
        "known devices: data, slow",
    ),
    "a file system before its device": (
        lambda found: found["stack"].reverse(),
        "stack[0].device: there is no device slow",
        "known devices: data",
    ),
    "a step named as a disk": (
        lambda found: found["stack"][0].update(name="data"),
        "stack[0].name: there is a disk data already",
        "another name",
    ),
    "a workload where nothing is mounted": (
        lambda found: found["workloads"][0].update(directory="/mnt/other"),
        "workloads[0].directory: there is no mounted directory /mnt/other",
        "did you mean /mnt/data?",
    ),
    "a workload and an injection of one name": (
        lambda found: found["injections"][0].update(name="fdatasync"),
        "workloads and injections: 2 are named fdatasync",
        "name of its own",
    ),
    "an injection into no step": (
        lambda found: found["injections"][0].update(step="fast"),
        "injections[0].step: there is no step fast",
        "known steps: ext4, slow",
    ),
    "an injection of an unknown key": (
        lambda found: found["injections"][0].update(replace={"delay": 1}),
        "injections[0].replace: Object contains unknown field `delay`",
        "keys of the step slow",
    ),
    "an injection into an unknown row": (
        lambda found: found["injections"][0].update(rows=["device.dat"]),
        "injections[0].rows: there is no row device.dat",
        "did you mean device.data?",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_named(wrong: str, tmp_path: Path) -> None:
    spoil, problem, hint = WRONG[wrong]
    found = document()
    spoil(found)
    file = write(found, tmp_path)
    with pytest.raises(ScenarioError) as error:
        read_scenario(file)
    assert str(error.value).startswith(f"{file}: {problem}")
    assert hint in error.value.hint


def test_no_toml(tmp_path: Path) -> None:
    file = tmp_path / "test.toml"
    file.write_text("description = ")
    with pytest.raises(ScenarioError, match=f"{file} is no TOML: Invalid value"):
        read_scenario(file)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        read_scenario(tmp_path / "test.toml")


def test_a_scenario_by_a_wrong_name() -> None:
    with pytest.raises(ScenarioError, match="no scenario locla") as error:
        find_scenario("locla")
    assert "did you mean local?" in error.value.hint
