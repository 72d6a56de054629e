# SPDX-License-Identifier: Apache-2.0
"""Lab stage: the labs that stand, as written beside them, in; their machines found or ended."""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from iostrata.errors import LabError
from iostrata.lab.cache import LabDirectory, lab_directories
from iostrata.lab.listen import LabListener
from iostrata.lab.machine import RunningMachine
from iostrata.lab.process import Process, process


class MachineState(msgspec.Struct, frozen=True):
    """``process``: its QEMU, or that of the machine that it is in. ``directory``: in the lab's."""

    name: str
    process: Process
    directory: str


class LabState(msgspec.Struct, frozen=True):
    """``owner``: who ends it, if it still runs. ``user``, ``checkout``: whose it is."""

    owner: Process
    user: str = ""
    checkout: str = ""
    machines: tuple[MachineState, ...] = ()

    @property
    def ours(self) -> bool:
        return (self.user, self.checkout) == (_user(), _checkout())


def new_state() -> LabState:
    """Of a lab that this process runs."""
    return LabState(process(os.getpid()), _user(), _checkout())


def write_state(directory: LabDirectory, state: LabState) -> None:
    partial = directory.state.with_suffix(".new")
    partial.write_bytes(msgspec.json.encode(state))
    partial.rename(directory.state)


def take_down(listener: LabListener, names: Sequence[str] = ()) -> None:
    """Ends the machines of labs that nobody runs any more, and no other process.

    ``names``: of labs, or of scenarios of which one stands that is ours; none: the only lab that
    stands and is ours. Errors: LabError, which names those that stand.
    """
    chosen: dict[LabDirectory, LabState] = {}
    for name in names:
        chosen |= _named(name)
    if not names:
        for directory, state in _states().items():
            if state.ours and not state.owner.alive:
                chosen[directory] = state
            else:
                listener.say(f"left alone: {_described(directory, state)}")
        _only_one(chosen, "iostrata lab down ends")
    for directory, state in chosen.items():
        _end(directory, state, listener)


def _named(name: str) -> dict[LabDirectory, LabState]:
    """A lab by its own name, whosever it is, or ours of a scenario."""
    known = _states()
    found = {directory: state for directory, state in known.items() if directory.name == name}
    if not found:
        found = {each: known[each] for each in known if each.scenario == name and known[each].ours}
        _only_one(found, f"{name} is the scenario of")
    if not found:
        listed = [_described(directory, state) for directory, state in known.items()]
        raise LabError(f"no lab {name} stands", _those_that_stand(listed))
    return found


def _only_one(labs: dict[LabDirectory, LabState], what: str) -> None:
    if len(labs) > 1:
        names = ", ".join(sorted(directory.name for directory in labs))
        raise LabError(f"{what} one lab, but {len(labs)} stand: {names}", "name those to be ended")


def _end(directory: LabDirectory, state: LabState, listener: LabListener) -> None:
    if state.owner.alive:
        listener.say(f"left alone: {_described(directory, state)}")
        return
    # A nested machine, whose process is that of the one it is in, comes after that.
    own = {machine.process: machine for machine in reversed(state.machines)}
    for machine in own.values():
        if machine.process.alive:
            listener.say(f"ending machine {machine.name}, process {machine.process.pid}")
            machine.process.end()
    directory.clear()


def find_machine(name: str) -> RunningMachine:
    """One that stands: MACHINE, of a lab that is ours, or LAB/MACHINE. Errors: LabError."""
    lab, _, machine = name.rpartition("/")
    found: dict[str, RunningMachine] = {}
    known = []
    for directory, state in _states().items():
        for each in state.machines:
            running = RunningMachine(each.name, directory.path / each.directory, each.process)
            if running.alive:
                known.append(f"{directory.name}/{each.name}")
                if each.name == machine and (lab == directory.name or (not lab and state.ours)):
                    found[known[-1]] = running
    if not found:
        raise LabError(f"no machine {name} stands", _those_that_stand(known))
    if len(found) > 1:
        raise LabError(f"{len(found)} machines {name} stand", f"give one of {', '.join(found)}")
    return next(iter(found.values()))


def execute(machine: RunningMachine, words: list[str], limit_s: float) -> tuple[int, str]:
    done = machine.try_command(shlex.join(words), limit_s)
    return done.status, done.output


def _described(directory: LabDirectory, state: LabState) -> str:
    if state.owner.alive:
        return f"{directory.name}, which process {state.owner.pid} runs"
    return directory.name if state.ours else f"{directory.name} of {state.user}, {state.checkout}"


def _those_that_stand(known: list[str]) -> str:
    return f"those that stand: {', '.join(known)}" if known else "iostrata lab up NAME"


def _user() -> str:
    """Who asked for root's rights, if it was by sudo."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _checkout() -> str:
    return str(Path(__file__).parents[2])


def _states() -> dict[LabDirectory, LabState]:
    """Of all labs whose machines may stand."""
    found = ((each, _read_state(each.state)) for each in lab_directories())
    return {directory: state for directory, state in found if state}


def _read_state(file: Path) -> LabState | None:
    """None: nothing stands there, or no more."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=LabState)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise LabError(
            f"{file} is broken: {error}", f"end its machines by hand, then: rm -r {file.parent}"
        ) from error
