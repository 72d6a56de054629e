# SPDX-License-Identifier: Apache-2.0
"""A step that is only declared: what a machine's shell is told, and what is wrong with it."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from iostrata.errors import LabError
from iostrata.lab.machine import RunningMachine
from iostrata.lab.process import process
from iostrata.lab.read import ScenarioError, read_scenario
from iostrata.lab.scenario import Scenario, with_keys
from iostrata.lab.stack import build
from iostrata.lab.steps import Service
from iostrata.lab.steps.step import Site
from iostrata.record.transport import Done
from tests.lab.scenarios import document, write

DOCUMENT: dict[str, Any] = {
    "description": "a disk that another machine has",
    "machines": [{"name": "near"}, {"name": "far", "disks": [{"name": "disk"}]}],
    "links": [{"name": "lan", "addresses": {"near": "192.0.2.2/24", "far": "192.0.2.1/24"}}],
    "stack": [
        {
            "kind": "service",
            "name": "the-target",
            "machine": "far",
            "install": ["targetd"],
            "load": ["target_mod", "slow_mod wait=1"],
            "needs": ["disk"],
            "values": {"port": 3260, "depth": 8},
            "up": "echo up $disk $port",
            "down": "echo down $port",
        },
        {
            "kind": "service",
            "name": "initiator",
            "machine": "near",
            "needs": ["the-target"],
            "files": {"/etc/near/name": "it's near\n"},
            "up": "echo login $the_target",
            "ready": "echo ask $the_target",
            "down": "echo logout",
            "provides": ["lun"],
        },
        {
            "kind": "file_system",
            "name": "ext4",
            "machine": "near",
            "device": "lun",
            "directory": "/mnt",
        },
    ],
    "workloads": [{"kind": "methods", "machine": "near", "directory": "/mnt"}],
    "injections": [
        {
            "name": "deep",
            "workload": "fsync",
            "step": "the-target",
            "replace": {"values": {"port": 3261}},
            "rows": ["device.*"],
        }
    ],
}


class Shell(RunningMachine):
    """Runs what it is told by a shell, in which the root's directories are those of ``root``.

    ``said``: what every command printed, in order.
    """

    def __init__(self, name: str, root: Path, said: list[str]) -> None:
        super().__init__(name, root, process(0))
        self.said = said

    def try_command(self, command: str, limit_s: float = 0) -> Done:
        if "/sys/block" in command:
            self.said.append(
                f"{self.name}: disk {command.split(maxsplit=1)[0].removeprefix('name=')}"
            )
            return Done(0, "/dev/sda\n")
        if "mkfs" in command or "umount" in command:
            return Done(0, "")
        moved = command.replace("/etc/", f"{self.directory}/etc/")
        done = subprocess.run(["sh", "-c", moved], capture_output=True, text=True, check=False)
        self.said += [f"{self.name}: {line}" for line in done.stdout.splitlines()]
        return Done(done.returncode, done.stdout + done.stderr)


def scenario(directory: Path) -> Scenario:
    return read_scenario(write(copy.deepcopy(DOCUMENT), directory))


def site(found: Scenario, root: Path) -> tuple[Site, list[str]]:
    said: list[str] = []
    machines = {each.name: Shell(each.name, root, said) for each in found.machines}
    disks = ((each.name, disk.name) for each in found.machines for disk in each.disks)
    return Site(machines, found.links, frozenset(disks)), said


UP = [
    "far: disk disk",
    "far: up /dev/sda 3260",
    "near: login 192.0.2.1",
    "near: ask 192.0.2.1",
    "near: disk lun",
    "near: disk lun",
]


def test_services_come_up_know_what_they_need_and_go_down(tmp_path: Path) -> None:
    found = scenario(tmp_path)
    on, said = site(found, tmp_path)
    build(found.stack, on)
    assert said == UP
    assert (tmp_path / "etc" / "near" / "name").read_text() == "it's near\n"
    said.clear()
    build((), on)
    assert said == ["near: logout", "far: down 3260"]
    assert not (tmp_path / "etc" / "near" / "name").exists()


def test_an_injection_replaces_some_values_of_a_service(tmp_path: Path) -> None:
    """What is above the service is taken down, and built anew on the changed one."""
    found = scenario(tmp_path)
    on, said = site(found, tmp_path)
    build(found.stack, on)
    said.clear()
    injection = found.injections[0]
    changed = with_keys(found.stack, {injection.step: injection.replace})
    assert isinstance(changed[0], Service)
    assert changed[0].values == {"port": 3261, "depth": 8}
    build(changed, on)
    assert said[:2] == ["near: logout", "far: down 3260"]
    assert said[2:] == [line.replace("3260", "3261") for line in UP]


def test_packages_and_modules(tmp_path: Path) -> None:
    found = scenario(tmp_path)
    near, far = found.machines
    assert found.packages("far") == ["targetd"]
    assert found.modules(far) == ["target_mod", "slow_mod wait=1"]
    assert found.packages("near") == ["e2fsprogs", "fio"]
    assert found.modules(near) == ["ext4"]


@pytest.mark.parametrize("key", ["up", "ready"])
def test_what_failed_is_told_not_what_failed_after_it(key: str, tmp_path: Path) -> None:
    """Half of it is up: it is told to go down, and cannot."""
    keys = {key: "echo no luck; exit 3", "down": "echo went down; exit 4"}
    found = with_keys(scenario(tmp_path).stack, {"initiator": keys})
    on, said = site(scenario(tmp_path), tmp_path)
    with pytest.raises(LabError, match=r"step initiator: (.*\n)*.*status 3\n  \| no luck"):
        build(found, on)
    assert said[-1] == "near: went down"
    assert [*on.steps] == ["the-target"]


WRONG = {
    "what nobody provides": (
        {"needs": ["disc"]},
        "stack[0].needs: there is no disk or step disc",
        "did you mean disk?",
    ),
    "a mount that is not there": (
        {"needs": ["/srv"]},
        "stack[0].needs: there is no mount /srv",
        "declare a mount before it",
    ),
    "a disk that is there already": (
        {"provides": ["disk"]},
        "stack[0].provides: there is a disk disk already",
        "another name",
    ),
    "a value named as a need": (
        {"values": {"disk": "x"}},
        "stack[0].values.disk: this is what a need is called",
        "another name",
    ),
    "a file without a path": (
        {"files": {"etc/x": ""}},
        "stack[0].files: Expected `str` matching regex",
        "compare",
    ),
    "a package that cannot be": (
        {"install": ["x; rm"]},
        "stack[0].install[0]: Expected `str` matching regex",
        "compare",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_named_with_file_and_key(wrong: str, tmp_path: Path) -> None:
    keys, problem, hint = WRONG[wrong]
    found = copy.deepcopy(DOCUMENT)
    found["stack"][0].update(keys)
    file = write(found, tmp_path)
    with pytest.raises(ScenarioError) as error:
        read_scenario(file)
    assert str(error.value).startswith(f"{file}: {problem}")
    assert hint in error.value.hint


def test_a_service_on_a_machine_that_no_link_reaches(tmp_path: Path) -> None:
    found = copy.deepcopy(DOCUMENT)
    found["links"] = []
    with pytest.raises(ScenarioError, match="needs: no link joins near and far"):
        read_scenario(write(found, tmp_path))


def test_a_service_needs_no_other(tmp_path: Path) -> None:
    found = document()
    found["stack"].append({"kind": "service", "name": "noise", "machine": "local", "up": "true"})
    assert isinstance(read_scenario(write(found, tmp_path)).stack[-1], Service)


@pytest.mark.parametrize("part", ["injections", "variants"])
def test_only_values_that_a_service_has_are_replaced(part: str, tmp_path: Path) -> None:
    found = copy.deepcopy(DOCUMENT)
    found["injections"][0]["replace"] = {"values": {"port": 1}}
    found["variants"] = [{"name": "v", "description": "", "replace": {"the-target": {}}}]
    file = write(found, tmp_path)
    read_scenario(file)
    replace = found[part][0]["replace"]
    (replace if part == "injections" else replace["the-target"])["values"] = {"prot": 1}
    with pytest.raises(ScenarioError, match=r"replace\.values: there is no value prot") as error:
        read_scenario(write(found, tmp_path))
    assert error.value.hint == "did you mean port?"
