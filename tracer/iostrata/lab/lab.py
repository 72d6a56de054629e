# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a Scenario in, its machines standing with the stack on them out."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from iostrata.errors import LabError
from iostrata.lab.cache import cache
from iostrata.lab.kernels import kernel
from iostrata.lab.listen import Listener
from iostrata.lab.machine import RunningMachine, start, wait_for
from iostrata.lab.process import Process, process
from iostrata.lab.scenario import Scenario, Step
from iostrata.lab.stack import build
from iostrata.lab.tools import check_tools

STATE: Final = "lab.json"


class MachineState(msgspec.Struct, frozen=True):
    name: str
    process: Process


class LabState(msgspec.Struct, frozen=True):
    """What stands, as written beside it. ``owner``: who ends it, if it still runs."""

    scenario: str
    owner: Process
    machines: tuple[MachineState, ...] = ()


@dataclass
class Lab:
    """``releases``, ``boot_s``: of each machine. The stack goes when another is built.

    ``keep``: leave it standing at the end, whatever the end is.
    """

    directory: Path
    keep: bool
    machines: dict[str, RunningMachine] = field(default_factory=dict)
    releases: dict[str, str] = field(default_factory=dict)
    boot_s: dict[str, float] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def build(self, steps: Iterable[Step]) -> None:
        self.stack.close()
        build(steps, self.machines, self.stack)


@contextmanager
def standing(scenario: Scenario, name: str, listener: Listener, keep: bool) -> Iterator[Lab]:
    """A lab for the block: its machines up, without a stack; after it only if it is kept."""
    check_tools()
    kernels = {machine.kernel: kernel(machine.kernel, listener) for machine in scenario.machines}
    places = _places()
    places.mkdir(parents=True, exist_ok=True)
    with ExitStack() as teardown:
        lab = Lab(Path(tempfile.mkdtemp(prefix=f"{name}-", dir=places)), keep)
        teardown.callback(shutil.rmtree, lab.directory, ignore_errors=True)
        try:
            for declared in scenario.machines:
                booted = kernels[declared.kernel]
                place = lab.directory / declared.name
                lab.machines[declared.name] = start(declared, booted, place, teardown)
                lab.releases[declared.name] = booted.release
                _write_state(lab, name)
            _wait_for_all(lab, listener)
            teardown.callback(lab.stack.pop_all)  # a machine's end ends what is built on it
            yield lab
        finally:
            if lab.keep and lab.machines:
                teardown.pop_all()
                _tell_of(lab.machines, listener)


def _wait_for_all(lab: Lab, listener: Listener) -> None:
    began = time.monotonic()
    for name, machine in lab.machines.items():
        listener.say(f"machine {name}: booting kernel {lab.releases[name]}")
        wait_for(machine)
        lab.boot_s[name] = time.monotonic() - began
        listener.say(f"machine {name}: up after {lab.boot_s[name]:.1f} s")


def _tell_of(machines: Mapping[str, RunningMachine], listener: Listener) -> None:
    for name, machine in machines.items():
        machine.close()
        listener.say(f"machine {name} stands: iostrata lab exec {name} -- COMMAND")
        listener.say(f"its files, sockets and logs: {machine.directory}")
    listener.say("iostrata lab down ends it")


def take_down(listener: Listener) -> None:
    """Ends the machines of every lab that nobody runs any more, and no other process."""
    for directory, state in _states():
        if state.owner.alive:
            listener.say(f"{state.scenario} is being run by process {state.owner.pid}: left alone")
            continue
        for machine in reversed(state.machines):
            if machine.process.alive:
                listener.say(f"ending machine {machine.name}, process {machine.process.pid}")
                machine.process.end()
        shutil.rmtree(directory, ignore_errors=True)


def find_machine(name: str) -> RunningMachine:
    """One that stands, of whichever lab; the youngest, if several bear that name."""
    known = []
    for directory, state in _states():
        for machine in state.machines:
            if machine.process.alive:
                known.append(machine.name)
                if machine.name == name:
                    return RunningMachine(name, directory / name, machine.process)
    raise LabError(
        f"no machine {name} stands",
        f"those that stand: {', '.join(known)}" if known else "iostrata lab up NAME",
    )


def execute(machine: RunningMachine, words: list[str], limit_s: float) -> tuple[int, str]:
    done = machine.try_command(shlex.join(words), limit_s)
    return done.status, done.output


def _places() -> Path:
    return cache() / "machines"


def _states() -> list[tuple[Path, LabState]]:
    """Of all labs, the youngest first."""
    files = sorted(_places().glob(f"*/{STATE}"), key=lambda file: -file.stat().st_mtime)
    return [(file.parent, _read_state(file)) for file in files]


def _read_state(file: Path) -> LabState:
    try:
        return msgspec.json.decode(file.read_bytes(), type=LabState)
    except msgspec.DecodeError as error:
        raise LabError(
            f"{file} is broken: {error}", f"end its machines by hand, then: rm -r {file.parent}"
        ) from error


def _write_state(lab: Lab, name: str) -> None:
    """Written as each machine starts: what is killed midway can still be taken down."""
    machines = tuple(MachineState(each.name, each.process) for each in lab.machines.values())
    state = LabState(name, process(os.getpid()), machines)
    partial = lab.directory / f"{STATE}.new"
    partial.write_bytes(msgspec.json.encode(state))
    partial.rename(lab.directory / STATE)
