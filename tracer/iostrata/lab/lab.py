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
from iostrata.lab.kernels import Kernel, kernel
from iostrata.lab.links import lay, plug_in
from iostrata.lab.listen import Listener
from iostrata.lab.machine import RunningMachine
from iostrata.lab.qemu import racing
from iostrata.lab.scenario import Scenario
from iostrata.lab.site import Site
from iostrata.lab.stack import needed_tools
from iostrata.lab.standing import MachineState, new_state, write_state
from iostrata.lab.steps import FileSystem, Machine
from iostrata.lab.tools import ALWAYS, check_tools


@dataclass
class Lab:
    """``kernels``, ``machines``, ``boot_s``: by the machine's name. ``began_s``: monotonic.

    ``keep``: leave it standing at the end.
    """

    scenario: Scenario
    kernels: Mapping[str, Kernel]
    directory: LabDirectory
    keep: bool
    machines: dict[str, RunningMachine] = field(default_factory=dict)
    boot_s: dict[str, float] = field(default_factory=dict)
    began_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.state = new_state()
        self.site = Site(self.machines, self.scenario.links)

    def within(self, machine: str) -> list[Machine]:
        """The machines that are nested in that one."""
        return [each for each in self.scenario.machines if each.nested == machine]


@contextmanager
def standing(
    scenario: Scenario, directory: LabDirectory, listener: Listener, keep: bool
) -> Iterator[Lab]:
    """A lab for the block, without a stack; after it only if it is kept.

    ``directory``: its own; recordings in it outlive it. Its machines are up, those within
    others are booting: ``wait_for_nested``.
    """
    with ExitStack() as teardown:
        teardown.callback(directory.clear)
        check_tools((*ALWAYS, *sorted(needed_tools(scenario.stack))))
        kernels = {each.name: kernel(each.kernel, listener) for each in scenario.machines}
        lab = Lab(scenario, kernels, directory, keep)
        try:
            _boot(lab, listener, teardown)
            yield lab
        finally:
            if lab.keep and lab.machines:
                teardown.pop_all()
                _tell_of(lab, listener)


def _boot(lab: Lab, listener: Listener, teardown: ExitStack) -> None:
    """All at once; those within another as soon as that is up."""
    own = [machine for machine in lab.scenario.machines if not machine.nested]
    for machine in own:
        if racing(machine):
            listener.say(f"machine {machine.name}: may hang: give it 1 CPU, as they are emulated")
    with ExitStack() as cables:
        plugs = lay(lab.scenario.links, cables)
        for machine in own:
            name = machine.name
            place = lab.directory.machines / name
            within = {each: lab.kernels[each.name] for each in lab.within(name)}
            running = boot.boot(machine, lab.kernels[name], place, plugs[name], within, teardown)
            _add(lab, running, listener)
    own.sort(key=lambda machine: not lab.within(machine.name))  # others wait for the first
    for machine in own:
        host = lab.machines[machine.name]
        _wait_for(lab, host, listener)
        plug_in(host, plugs[machine.name])
        for nested in lab.within(machine.name):
            running = boot.boot_nested(
                nested, lab.kernels[nested.name], host, _modules(lab, nested)
            )
            teardown.callback(running.close)
            _add(lab, running, listener)


def _modules(lab: Lab, machine: Machine) -> list[str]:
    return [
        step.type
        for step in lab.scenario.stack
        if isinstance(step, FileSystem) and step.machine == machine.name
    ]


def _add(lab: Lab, machine: RunningMachine, listener: Listener) -> None:
    """Told and written down as it starts: what is killed midway can still be taken down."""
    listener.say(f"machine {machine.name}: booting kernel {lab.kernels[machine.name].release}")
    lab.machines[machine.name] = machine
    states = tuple(
        MachineState(each.name, each.process, str(each.directory.relative_to(lab.directory.path)))
        for each in lab.machines.values()
    )
    write_state(lab.directory, msgspec.structs.replace(lab.state, machines=states))


def wait_for_nested(lab: Lab, listener: Listener) -> None:
    for machine in lab.scenario.machines:
        if machine.nested:
            _wait_for(lab, lab.machines[machine.name], listener)


def _wait_for(lab: Lab, machine: RunningMachine, listener: Listener) -> None:
    boot.wait_for(machine)
    lab.boot_s[machine.name] = time.monotonic() - lab.began_s
    listener.say(f"machine {machine.name}: up after {lab.boot_s[machine.name]:.1f} s")


def _tell_of(lab: Lab, listener: Listener) -> None:
    name = lab.directory.name
    for machine in lab.machines.values():
        machine.close()
        listener.say(f"{machine.name} stands: iostrata lab exec {name}/{machine.name} -- COMMAND")
        listener.say(f"its files, ports and logs: {machine.directory}")
    listener.say(f"iostrata lab down {name} ends it")
