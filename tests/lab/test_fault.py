# SPDX-License-Identifier: Apache-2.0
"""A fault happens while something else is done, once that has begun, and is over at its end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from iostrata.errors import LabError
from iostrata.lab.fault import impending
from iostrata.lab.machine import RunningMachine
from iostrata.lab.process import process
from iostrata.lab.scenario import Asked, Fault

SOON_S = 0.01


@pytest.fixture
def machine(tmp_path: Path) -> RunningMachine:
    return RunningMachine("local", tmp_path, process(os.getpid()))


def fault(command: str = "", halted_s: float = 0) -> Fault:
    return Fault(
        name="fault", workload="w", machine="local", after_s=SOON_S,
        command=command, halted_s=halted_s,
    )  # fmt: skip


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """What the machine was told to run, and whether by who tests: its clock goes on by a second."""
    ran: list[tuple[str, bool]] = []
    here = threading.current_thread()

    def command(machine: RunningMachine, words: str) -> str:
        ran.append((words, threading.current_thread() is here))
        return f"{len(ran)}.25 0.00\n"

    monkeypatch.setattr(RunningMachine, "command", command)
    return ran


def test_a_command_on_the_machine(machine: RunningMachine, ran: list[tuple[str, bool]]) -> None:
    with impending(fault("date"), machine, machine, nested=False) as begun:
        assert ran == []
        begun()
    clock = ("cat /proc/uptime", False)
    assert ran == [clock, ("date", False), clock]
    assert (begun.since_ns, begun.until_ns) == (1_250_000_000, 3_250_000_000)


class Asks:
    """A machine's QEMU, which keeps what it is asked for."""

    def __init__(self, ran: list[tuple[str, bool]]) -> None:
        self._ran = ran

    def execute(self, command: str, words: dict[str, str], until: str, within_s: float) -> None:
        self._ran.append((f"{command} {words} {until} {within_s:.0f} s", False))


def test_its_qemu_is_asked_before_its_shell(
    machine: RunningMachine, ran: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(
        execute="device_del", arguments={"id": "disk"}, until="DEVICE_DELETED", within_s=90
    )
    both = msgspec.structs.replace(fault("date"), monitor=(asked, Asked(execute="cont")))
    monkeypatch.setattr(RunningMachine, "monitor", Asks(ran))
    with impending(both, machine, machine, nested=True) as begun:
        begun()
    told = [words for words, _ in ran][1:-1]
    assert told == ["device_del {'id': 'disk'} DEVICE_DELETED 90 s", "cont {}  30 s", "date"]


def test_nothing_happens_where_nothing_begins(machine: RunningMachine) -> None:
    with impending(fault("date"), machine, machine, nested=False) as begun:
        pass
    assert (begun.since_ns, begun.until_ns) == (0, 0)


def test_what_cannot_happen_is_an_error(machine: RunningMachine) -> None:
    """The machine of this test has no port at which a command is heard."""
    with (
        pytest.raises(LabError, match="machine local: it has no port"),
        impending(fault("date"), machine, machine, nested=False) as begun,
    ):
        begun()


def test_why_it_did_not_happen_is_told_before_what_came_of_that(machine: RunningMachine) -> None:
    def fetched() -> None:
        with impending(fault("date"), machine, machine, nested=False) as begun:
            begun()
            raise FileNotFoundError("trace")

    with pytest.raises(LabError, match="machine local: it has no port"):
        fetched()


@pytest.mark.usefixtures("ran")
def test_a_machine_is_halted_and_goes_on(tmp_path: Path) -> None:
    script = "import time; [(print(1, flush=True), time.sleep(0.01)) for _ in range(20)]"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        machine = RunningMachine("local", tmp_path, process(child.pid))
        with impending(fault(halted_s=0.3), machine, machine, nested=False) as begun:
            begun()
        stopped = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert stopped != "T"
        assert len(child.stdout.readlines()) == 19
