# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a Scenario in, its machines standing, on which its stack can be built, out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import msgspec

from iostrata.lab import boot
from iostrata.lab.cache import LabDirectory
from iostrata.lab.links import Wiring, commands, lay
from iostrata.lab.listen import LabListener
from iostrata.lab.machine import RunningMachine
from iostrata.lab.pace import Pace
from iostrata.lab.qemu import racing
from iostrata.lab.scenario import Scenario
from iostrata.lab.software import Software, software
from iostrata.lab.standing import MachineState, new_state, write_state
from iostrata.lab.steps.step import Site
from iostrata.lab.tools import ALWAYS, check_tools
from iostrata.lab.topology import Machine


@dataclass
class Lab:
    """``software``, ``machines``, ``boot_s``: by the machine's name. ``began_s``: monotonic.

    ``keep``: leave it standing at the end.
    """

    scenario: Scenario
    software: Mapping[str, Software]
    directory: LabDirectory
    keep: bool
    wiring: Wiring = field(default_factory=Wiring)
    pace: Pace = field(default_factory=Pace)
    machines: dict[str, RunningMachine] = field(default_factory=dict)
    boot_s: dict[str, float] = field(default_factory=dict)
    began_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.state = new_state()
        own = ((each.name, disk.name) for each in self.scenario.machines for disk in each.disks)
        self.site = Site(self.machines, self.scenario.links, frozenset(own))

    def within(self, machine: str) -> list[Machine]:
        """The machines that are nested in that one."""
        return [each for each in self.scenario.machines if each.nested == machine]


@contextmanager
def standing(
    scenario: Scenario, directory: LabDirectory, listener: LabListener, keep: bool
) -> Iterator[Lab]:
    """A lab for the block, without a stack; after it only if it is kept.

    ``directory``: its own; recordings in it outlive it. Its machines are up, those within
    others are booting: ``wait_for_nested``.
    """
    with ExitStack() as teardown:
        teardown.callback(directory.clear)
        programs = (each.hardware.program for each in scenario.machines)
        check_tools([*dict.fromkeys(programs), *ALWAYS])
        lab = Lab(scenario, software(scenario, listener), directory, keep)
        try:
            _boot(lab, listener, teardown)
            yield lab
        finally:
            if lab.keep and lab.machines:
                teardown.pop_all()
                _tell_of(lab, listener)


def _boot(lab: Lab, listener: LabListener, teardown: ExitStack) -> None:
    """All at once; those within another as soon as that is up."""
    own = [machine for machine in lab.scenario.machines if not machine.nested]
    for machine in own:
        if racing(machine):
            listener.say(f"machine {machine.name}: may hang: give it 1 CPU, as they are emulated")
    lab.pace.loaded()
    with ExitStack() as cables:
        declared = {machine.name: machine for machine in lab.scenario.machines}
        lab.wiring = lay(lab.scenario.links, declared, cables)
        for machine in own:
            name = machine.name
            place, plugs = lab.directory.machines / name, lab.wiring.plugs[name]
            within = {each: lab.software[each.name] for each in lab.within(name)}
            running = boot.boot(
                machine, lab.software[name], place, plugs, within, lab.pace, teardown
            )
            _add(lab, running, listener)
    own.sort(key=lambda machine: not lab.within(machine.name))  # others wait for the first
    for machine in own:
        host = lab.machines[machine.name]
        boot.wait_for(host)
        _is_up(lab, host, listener)
        lab.pace.booted(lab.boot_s[machine.name])
        _set_up(lab, host)
        for nested in lab.within(machine.name):
            plugs, slots = lab.wiring.plugs[nested.name], lab.scenario.slots(nested.name)
            software, shares = lab.software[nested.name], lab.scenario.shares(nested.name)
            running = boot.boot_nested(nested, software, host, plugs, slots, shares)
            teardown.callback(running.close)
            _add(lab, running, listener)


def _set_up(lab: Lab, machine: RunningMachine) -> None:
    """Its interfaces and modules; a nested machine came up with its modules."""
    for command in commands(lab.wiring, machine.name):
        machine.command(command)
    nested = [each.name for each in lab.scenario.machines if each.nested]
    if machine.name not in nested:
        machine.command(lab.software[machine.name].load_modules())


def _add(lab: Lab, machine: RunningMachine, listener: LabListener) -> None:
    """Told and written down as it starts: what is killed midway can still be taken down."""
    kernel = lab.software[machine.name].kernel
    listener.say(f"machine {machine.name}: booting kernel {kernel.release}")
    lab.machines[machine.name] = machine
    states = tuple(
        MachineState(each.name, each.process, str(each.directory.relative_to(lab.directory.path)))
        for each in lab.machines.values()
    )
    write_state(lab.directory, msgspec.structs.replace(lab.state, machines=states))


def wait_for_nested(lab: Lab, listener: LabListener) -> None:
    for machine in lab.scenario.machines:
        if machine.nested:
            running = lab.machines[machine.name]
            boot.wait_for_nested(running, lab.machines[machine.nested], listener.say)
            _is_up(lab, running, listener)
            _set_up(lab, running)


def _is_up(lab: Lab, machine: RunningMachine, listener: LabListener) -> None:
    lab.boot_s[machine.name] = time.monotonic() - lab.began_s
    listener.say(f"machine {machine.name}: up after {lab.boot_s[machine.name]:.1f} s")


def _tell_of(lab: Lab, listener: LabListener) -> None:
    name = lab.directory.name
    for machine in lab.machines.values():
        machine.close()
        listener.say(f"{machine.name} stands: iostrata lab exec {name}/{machine.name} -- COMMAND")
        listener.say(f"its files, ports and logs: {machine.directory}")
    listener.say(f"iostrata lab down {name} ends it")
