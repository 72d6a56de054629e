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
from iostrata.lab.scenario import with_kernel, with_keys, with_variant
from iostrata.lab.steps import NullBlock
from iostrata.layers import VISIBILITY
from tests.lab.scenarios import document, path_document, write


@pytest.mark.parametrize("name", scenarios())
def test_scenarios_that_come_with_iostrata(name: str) -> None:
    scenario, found = find_scenario(name)
    assert found == name
    assert {machine.kernel for machine in scenario.machines} <= set(SUITES)
    observed = {layer for machine in scenario.machines for layer in machine.observed}
    assert observed <= {visibility.name for visibility in VISIBILITY}


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


def test_the_methods_of_pg_test_fsync(tmp_path: Path) -> None:
    rounds = {each.name: each for each in read_scenario(write(path_document(), tmp_path)).rounds()}
    assert list(rounds) == [
        *("open_datasync", "fdatasync", "fsync", "open_sync"),
        *("open_datasync-4", "fdatasync-4", "fsync-4", "open_sync-4"),
    ]
    assert rounds["open_sync"].options["sync"] == "sync"
    one, four = rounds["fdatasync"].options, rounds["fdatasync-4"].options
    assert (one["fdatasync"], one["numjobs"], one["size"]) == (1, 1, 8 << 20)
    assert (four["fdatasync"], four["numjobs"], four["size"]) == (1, 4, 2 << 20)


def test_a_variant(tmp_path: Path) -> None:
    scenario = read_scenario(write(path_document(), tmp_path))
    changed = with_variant(scenario, scenario.variants[0])
    differing = [
        pair for pair in zip(scenario.stack, changed.stack, strict=True) if len({*pair}) > 1
    ]
    assert [(before.name, after) for before, after in differing] == [
        ("image", msgspec.structs.replace(scenario.stack[3], aio="native"))
    ]
    assert changed.machines == scenario.machines
    assert not changed.injections


def test_a_variant_has_faults_of_its_own(tmp_path: Path) -> None:
    """Of those two, only the one that the variant has two paths for."""
    document = path_document()
    fault = {"workload": "fdatasync", "machine": "server", "command": "true"}
    document["faults"] = [{"name": "restarts", **fault}]
    document["variants"][0]["faults"] = [{"name": "path-goes", **fault}]
    scenario = read_scenario(write(document, tmp_path))
    changed = with_variant(scenario, scenario.variants[0])
    assert [found.name for found in scenario.faults] == ["restarts"]
    assert [found.name for found in changed.faults] == ["path-goes"]


def test_a_variant_has_checks_of_its_own(tmp_path: Path) -> None:
    document = path_document()
    document["variants"][0]["checks"] = {"beyond": 0.5}
    scenario = read_scenario(write(document, tmp_path))
    changed = with_variant(scenario, scenario.variants[0])
    assert changed.checks == msgspec.structs.replace(scenario.checks, beyond=0.5)
    assert changed.checks != scenario.checks


def test_a_variant_of_a_machine(tmp_path: Path) -> None:
    document = path_document()
    document["variants"][0]["replace"] = {"guest": {"cpus": 2}}
    scenario = read_scenario(write(document, tmp_path))
    changed = with_variant(scenario, scenario.variants[0])
    cpus = {machine.name: machine.cpus for machine in changed.machines}
    assert cpus == {**{machine.name: machine.cpus for machine in scenario.machines}, "guest": 2}
    assert changed.stack == scenario.stack


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
    "a journal on an unknown device": (
        lambda found: found["stack"][1].update(journal="log"),
        "stack[1].journal: there is no device log",
        "known devices: data, slow",
    ),
    "a journal that cannot be apart": (
        lambda found: found["stack"][1].update(journal="data", type="xfs"),
        "stack[1].journal: this is xfs",
        "only ext4 can have one",
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
        "workloads[0].directory: there is no mount /mnt/other",
        "did you mean /mnt/data?",
    ),
    "a workload and an injection of one name": (
        lambda found: found["injections"][0].update(name="fdatasync"),
        "workloads, injections and faults: 2 are named fdatasync",
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
    "keys of no step in the rounds of injections": (
        lambda found: found.update(steady={"slwo": {"completion_ns": 9}}),
        "steady: there is no step slwo",
        "did you mean slow?",
    ),
    "an unknown key in the rounds of injections": (
        lambda found: found.update(steady={"slow": {"delay": 9}}),
        "steady: Object contains unknown field `delay`",
        "give keys of steps",
    ),
    "an injection into an unknown row": (
        lambda found: found["injections"][0].update(rows=["device.dat"]),
        "injections[0].rows: there is no row device.dat",
        "did you mean device.data?",
    ),
    "a fault on an unknown machine": (
        lambda found: found["faults"][0].update(machine="locale"),
        "faults[0].machine: there is no machine locale",
        "did you mean local?",
    ),
    "a fault of no workload": (
        lambda found: found["faults"][0].update(workload="fsync"),
        "faults[0].workload: there is no workload fsync",
        "did you mean fdatasync?",
    ),
    "a fault that is two": (
        lambda found: found["faults"][0].update(halted_s=1),
        "faults[0]: it is one thing that goes wrong",
        "either command or halted_s",
    ),
    "a fault that is nothing": (
        lambda found: found["faults"][0].update(command=""),
        "faults[0]: it is one thing that goes wrong",
        "either command or halted_s",
    ),
    "a fault of a QEMU that has no monitor": (
        lambda found: found["faults"][0].update(monitor=[{"execute": "stop"}]),
        "faults[0].monitor: there is no nested machine local",
        "declare a nested machine",
    ),
    "a fault named as an injection": (
        lambda found: found["faults"][0].update(name="delay"),
        "workloads, injections and faults: 2 are named delay",
        "name of its own",
    ),
}


WRONG_PATH: dict[str, tuple[Spoil, str, str]] = {
    "nested in no machine": (
        lambda found: found["machines"][0].update(nested="hots"),
        "machines[0].nested: there is no machine hots",
        "did you mean host?",
    ),
    "nested in a nested machine": (
        lambda found: found["machines"].append({"name": "third", "nested": "guest"}),
        "machines[3].nested: there is no machine guest",
        "known machines: host, server",
    ),
    "a nested machine of another architecture": (
        lambda found: found["machines"][1].update(architecture="arm64"),
        "machines[0].nested: both must be amd64",
        'architecture = "amd64"',
    ),
    "a nested machine with a disk": (
        lambda found: found["machines"][0].update(disks=[{"name": "data"}]),
        "machines[0].disks: it is nested",
        "an image step",
    ),
    "a link of three machines": (
        lambda found: found["links"][0]["addresses"].update(guest="192.0.2.3/24"),
        "links[0].addresses: a link has two ends, not 3",
        "name two machines",
    ),
    "a link with one end": (
        lambda found: found["links"][0]["addresses"].pop("host"),
        "links[0].addresses: a link has two ends, not 1",
        "two machines",
    ),
    "no address": (
        lambda found: found["links"][0]["addresses"].update(host="::1/64"),
        "links[0].addresses[...]: Expected `str` matching regex",
        "local",
    ),
    "what is not mounted is exported": (
        lambda found: found["stack"][1].update(directory="/src"),
        "stack[1].directory: there is no mount /src",
        "did you mean /srv?",
    ),
    "a mount from no server": (
        lambda found: found["stack"][2].update(server="export"),
        "stack[2].server: there is no nfs_server export",
        "known nfs_servers: nfsd",
    ),
    "a mount without a link": (
        lambda found: found["links"].clear(),
        "stack[2].server: no link joins host and server",
        "[[links]]",
    ),
    "an image for a machine that is not within": (
        lambda found: found["stack"][3].update(guest="server"),
        "stack[3].guest: there is no nested machine server",
        "known nested machines: guest",
    ),
    "a file system on another machine's disk": (
        lambda found: found["stack"][4].update(device="disk"),
        "stack[4].device: there is no device disk",
        "known devices: image",
    ),
    "a delay on no link": (
        lambda found: found["stack"][5].update(link="wan"),
        "stack[5].link: there is no link wan",
        "did you mean lan?",
    ),
    "a quota for no guest": (
        lambda found: found["stack"][6].update(machine="server"),
        "stack[6].guest: there is no nested machine guest",
        "declare a nested machine",
    ),
    "a workload in a directory of another machine": (
        lambda found: found["workloads"][0].update(directory="/mnt"),
        "workloads[0].directory: there is no mount /mnt",
        "known mounts: /data",
    ),
    "a workload of which nothing is recorded": (
        lambda found: found["machines"][0].update(recorded=False),
        "workloads[0].machine: there is no recorded machine guest",
        "known recorded machines: host",
    ),
    "rows of an unknown machine": (
        lambda found: found["injections"][0].update(rows=["srever/device.*"]),
        "injections[0].rows: there is no machine srever",
        "did you mean server?",
    ),
    "rows that match nothing": (
        lambda found: found["injections"][0].update(rows=["server/devise.*"]),
        "injections[0].rows: there is no row devise.*",
        "did you mean device.",
    ),
    "a fault of a variant": (
        lambda found: found["variants"][0].update(
            faults=[{"name": "f", "workload": "fdatasync", "machine": "srever", "command": "true"}]
        ),
        "variants[0].faults[0].machine: there is no machine srever",
        "did you mean server?",
    ),
    "a variant of no step": (
        lambda found: found["variants"][0].update(replace={"imago": {}}),
        "variants[0].replace: there is no machine or step imago",
        "did you mean image?",
    ),
    "a variant of an unknown key": (
        lambda found: found["variants"][0].update(replace={"image": {"oia": 1}}),
        "variants[0].replace: Object contains unknown field `oia`",
        "keys of machines and steps",
    ),
    "a variant with an unknown check": (
        lambda found: found["variants"][0].update(checks={"folowed": 1}),
        "variants[0].checks: Object contains unknown field `folowed`",
        "keys of checks",
    ),
    "a variant that cannot be": (
        lambda found: found["variants"][0].update(replace={"mount": {"directory": "/mnt2"}}),
        "stack[3].directory: there is no mount /mnt",
        "did you mean /mnt2?",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_named(wrong: str, tmp_path: Path) -> None:
    check_wrong(document(), *WRONG[wrong], tmp_path)


@pytest.mark.parametrize("wrong", WRONG_PATH)
def test_what_is_wrong_with_several_machines_is_named(wrong: str, tmp_path: Path) -> None:
    check_wrong(path_document(), *WRONG_PATH[wrong], tmp_path)


def check_wrong(
    found: dict[str, Any], spoil: Spoil, problem: str, hint: str, directory: Path
) -> None:
    read_scenario(write(found, directory))
    spoil(found)
    file = write(found, directory)
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
