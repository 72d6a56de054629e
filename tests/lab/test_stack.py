# SPDX-License-Identifier: Apache-2.0
"""The stack on machines that only write down what they are told: what is built, what stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from iostrata.errors import LabError
from iostrata.lab.machine import RunningMachine
from iostrata.lab.monitor import Monitor
from iostrata.lab.process import process
from iostrata.lab.read import read_scenario
from iostrata.lab.scenario import Scenario, with_keys
from iostrata.lab.stack import build
from iostrata.lab.steps.step import Site
from iostrata.record.transport import Done
from tests.lab.scenarios import path_document, write


class Told(RunningMachine):
    """``log``: what all machines were told, in order. Fails at a command that has ``broken``."""

    def __init__(self, name: str, log: list[str], broken: str = "") -> None:
        super().__init__(name, Path("/nonexistent"), process(0))
        self._log = log
        self._broken = broken

    @property
    def monitor(self) -> Monitor:
        return ToldMonitor(self._log)

    def try_command(self, command: str, limit_s: float = 0) -> Done:
        return Done(0, self.command(command))

    def command(self, command: str, limit_s: float = 0) -> str:
        if self._broken and self._broken in command:
            raise LabError(f"{self._broken} is broken")
        self._log.append(f"{self.name}: {command}")
        return "/dev/vdb\n"


class ToldMonitor(Monitor):
    def __init__(self, log: list[str]) -> None:
        self._log = log

    def execute(
        self, command: str, words: Mapping[str, Any] | None = None, **arguments: Any
    ) -> None:
        self._log.append(f"monitor: {command} {arguments | dict(words or {})}")

    def wait_deleted(self, device: str) -> None:
        self._log.append(f"monitor: {device} is deleted")


def scenario(directory: Path) -> Scenario:
    return read_scenario(write(path_document(), directory))


def site(found: Scenario, broken: str = "") -> tuple[Site, list[str]]:
    log: list[str] = []
    machines = {each.name: Told(each.name, log, broken) for each in found.machines}
    return Site(machines, found.links), log


def told(log: list[str], *words: str) -> list[int]:
    """For each of the words, the place of the first entry that has it."""
    return [next(at for at, entry in enumerate(log) if word in entry) for word in words]


def test_the_stack_is_built_from_below(tmp_path: Path) -> None:
    found = scenario(tmp_path)
    on, log = site(found)
    build(found.stack, on)
    places = told(log, "rpc.nfsd", "mount -t nfs -o", "device_add", "mount -t ext4 /dev/vdb /data")
    assert places == sorted(places)
    assert "vers=4 192.0.2.1:/ /mnt" in log[places[1]]
    assert list(on.steps) == [step.name for step in found.stack]


def test_what_is_equal_up_to_the_change_stays(tmp_path: Path) -> None:
    found = scenario(tmp_path)
    on, log = site(found)
    build(found.stack, on)
    log.clear()
    build(with_keys(found.stack, {"reply": {"delay_ns": 5_000_000}}), on)
    assert log == ["server: tc qdisc add dev lan root netem delay 5000us limit 10000"]
    log.clear()
    build(found.stack, on)
    assert log == ["server: tc qdisc del dev lan root"]
    log.clear()
    build(found.stack, on)
    assert log == []


def test_what_is_above_a_change_is_taken_down_from_above(tmp_path: Path) -> None:
    found = scenario(tmp_path)
    on, log = site(found)
    build(found.stack, on)
    log.clear()
    build(with_keys(found.stack, {"image": {"iops": 20, "iothread": True}}), on)
    down = told(log, "guest: umount /data", "device_del", "image is deleted", "rm /mnt/image.img")
    again = told(log, "truncate", "throttle-group", "'iothread'", "device_add", "mkfs.ext4")
    assert [*down, *again] == sorted([*down, *again])
    assert not any("nfs" in entry for entry in log)


def test_a_step_that_fails_is_taken_down_and_not_standing(tmp_path: Path) -> None:
    found = scenario(tmp_path)
    on, log = site(found, broken="until (")
    with pytest.raises(LabError, match="until"):
        build(found.stack, on)
    told(log, "device_del", "rm /mnt/image.img")
    assert list(on.steps) == ["export", "nfsd", "mount"]


def test_version_3_is_announced_and_mounted_by_its_path(tmp_path: Path) -> None:
    found = scenario(tmp_path)
    on, log = site(found)
    build(with_keys(found.stack[:3], {"nfsd": {"version": 3}}), on)
    serve, mount = told(log, "rpc.nfsd", "mount -t nfs -o")
    assert "rpcbind" in log[serve]
    assert "vers=3,nolock" in log[mount]
    assert "192.0.2.1:/srv /mnt" in log[mount]


def test_a_quota_limits_the_guests_virtual_cpus(tmp_path: Path) -> None:
    found = scenario(tmp_path)
    on, log = site(found)
    build(with_keys(found.stack, {"quota": {"quota_ns": 10_000_000}}), on)
    (at,) = told(log, "echo 10000 20000 >/sys/fs/cgroup/quota/cpu.max")
    assert log[at].startswith("host: ")
    assert "/lab/guest/pid" in log[at]


def test_the_packages_and_modules_of_a_machine(tmp_path: Path) -> None:
    found = scenario(tmp_path)
    machines = {machine.name: machine for machine in found.machines}
    assert found.packages("server") == ["e2fsprogs", "iproute2", "nfs-kernel-server"]
    assert found.packages("guest") == ["e2fsprogs", "fio"]
    assert found.modules(machines["host"]) == ["nfs", "nfsv3", "nfsv4"]
