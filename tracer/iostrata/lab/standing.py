# SPDX-License-Identifier: Apache-2.0
"""Lab stage: the labs that stand, as written beside them, in; their machines found or ended."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Final

import msgspec

from iostrata.errors import LabError
from iostrata.lab.cache import cache
from iostrata.lab.listen import Listener
from iostrata.lab.machine import RunningMachine
from iostrata.lab.process import Process

STATE: Final = "lab.json"


class MachineState(msgspec.Struct, frozen=True):
    """``process``: its QEMU, or that of the machine that it is in. ``directory``: in the lab's."""

    name: str
    process: Process
    directory: str


class LabState(msgspec.Struct, frozen=True):
    """``owner``: who ends it, if it still runs."""

    scenario: str
    owner: Process
    machines: tuple[MachineState, ...] = ()


def places() -> Path:
    """Where each lab has its directory."""
    return cache() / "machines"


def write_state(directory: Path, state: LabState) -> None:
    partial = directory / f"{STATE}.new"
    partial.write_bytes(msgspec.json.encode(state))
    partial.rename(directory / STATE)


def take_down(listener: Listener, scenario: str = "") -> None:
    """Ends the machines of labs that nobody runs any more, and no other process.

    ``scenario``: only of those that are of this one.
    """
    for directory, state in _states():
        if scenario and state.scenario != scenario:
            continue
        if state.owner.alive:
            listener.say(f"{state.scenario} is being run by process {state.owner.pid}: left alone")
            continue
        # A nested machine, whose process is that of the one it is in, comes after that.
        own = {machine.process: machine for machine in reversed(state.machines)}
        for machine in own.values():
            if machine.process.alive:
                listener.say(f"ending machine {machine.name}, process {machine.process.pid}")
                machine.process.end()
        shutil.rmtree(directory, ignore_errors=True)


def find_machine(name: str) -> RunningMachine:
    """One that stands, of whichever lab; the youngest, if several bear that name."""
    known = []
    for directory, state in _states():
        for machine in state.machines:
            running = RunningMachine(machine.name, directory / machine.directory, machine.process)
            if running.alive:
                known.append(machine.name)
                if machine.name == name:
                    return running
    raise LabError(
        f"no machine {name} stands",
        f"those that stand: {', '.join(known)}" if known else "iostrata lab up NAME",
    )


def execute(machine: RunningMachine, words: list[str], limit_s: float) -> tuple[int, str]:
    done = machine.try_command(shlex.join(words), limit_s)
    return done.status, done.output


def _states() -> list[tuple[Path, LabState]]:
    """Of all labs, the youngest first."""
    files = sorted(places().glob(f"*/{STATE}"), key=lambda file: -file.stat().st_mtime)
    return [(file.parent, _read_state(file)) for file in files]


def _read_state(file: Path) -> LabState:
    try:
        return msgspec.json.decode(file.read_bytes(), type=LabState)
    except msgspec.DecodeError as error:
        raise LabError(
            f"{file} is broken: {error}", f"end its machines by hand, then: rm -r {file.parent}"
        ) from error
