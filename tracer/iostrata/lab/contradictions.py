# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a Scenario in, what no single key of it can show to be wrong out."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import msgspec

from iostrata.lab.scenario import Injection, Scenario, with_keys, with_variant
from iostrata.lab.steps import (
    CpuQuota,
    FileSystem,
    Image,
    Machine,
    Netem,
    NfsMount,
    NfsServer,
    NullBlock,
    Step,
)
from iostrata.layers import ROWS

# Key, problem, hint.
Found = Iterator[tuple[str, str, str]]


def contradictions(scenario: Scenario) -> Found:
    """The first is what to tell: those after it may be its consequence."""
    yield from _machines(scenario)
    yield from _links(scenario)
    yield from _stack(scenario)
    yield from _rounds(scenario)
    for number, variant in enumerate(scenario.variants):
        key = f"variants[{number}].replace"
        known = [part.name for part in (*scenario.machines, *scenario.stack)]
        for name in variant.replace:
            yield from _unless_known(key, name, known, "machine or step")
        try:
            changed = with_variant(scenario, variant)
            yield from _machines(changed)
            yield from _stack(changed)
        except msgspec.ValidationError as error:
            yield key, str(error), "give keys of machines and steps"


def choice(wrong: str, known: Iterable[str], what: str) -> str:
    """What to give instead."""
    close = difflib.get_close_matches(wrong, list(known), n=1)
    return f"did you mean {close[0]}?" if close else f"known {what}s: {', '.join(sorted(known))}"


def _machines(scenario: Scenario) -> Found:
    yield from _repeated("machines", (machine.name for machine in scenario.machines))
    carriers = [machine.name for machine in scenario.machines if not machine.nested]
    for number, machine in enumerate(scenario.machines):
        key = f"machines[{number}]"
        if machine.nested:
            yield from _unless_known(f"{key}.nested", machine.nested, carriers, "machine")
        if machine.nested and machine.disks:
            yield f"{key}.disks", "it is nested", "give it an image step instead"


def _links(scenario: Scenario) -> Found:
    yield from _repeated("links", (link.name for link in scenario.links))
    ends = [machine.name for machine in scenario.machines if not machine.nested]
    for number, link in enumerate(scenario.links):
        key = f"links[{number}].addresses"
        for machine in link.addresses:
            yield from _unless_known(key, machine, ends, "machine")
        if len(link.addresses) != 2:
            yield key, f"a link has two ends, not {len(link.addresses)}", "name two machines"


def _stack(scenario: Scenario) -> Found:
    yield from _repeated("stack", (step.name for step in scenario.stack))
    standing = _Standing({machine.name: machine for machine in scenario.machines}, scenario)
    for number, step in enumerate(scenario.stack):
        key = f"stack[{number}]"
        yield from _unless_known(f"{key}.machine", step.machine, standing.machines, "machine")
        yield from standing.add(key, step)


def _rounds(scenario: Scenario) -> Found:
    rounds = list(scenario.rounds())
    names = [each.name for each in rounds] + [each.name for each in scenario.injections]
    yield from _repeated("workloads and injections", names)
    directories = {
        (step.machine, step.directory)
        for step in scenario.stack
        if isinstance(step, FileSystem | NfsMount)
    }
    machines = [machine.name for machine in scenario.machines]
    for number, workload in enumerate(scenario.workloads):
        key = f"workloads[{number}]"
        yield from _unless_known(f"{key}.machine", workload.machine, machines, "machine")
        known = [place for machine, place in directories if machine == workload.machine]
        yield from _unless_known(f"{key}.directory", workload.directory, known, "mount")
    for number, injection in enumerate(scenario.injections):
        yield from _injection(f"injections[{number}]", injection, scenario)


def _injection(key: str, injection: Injection, scenario: Scenario) -> Found:
    workloads = [workload.name for workload in scenario.rounds()]
    steps = [step.name for step in scenario.stack]
    yield from _unless_known(f"{key}.workload", injection.workload, workloads, "workload")
    yield from _unless_known(f"{key}.step", injection.step, steps, "step")
    machines = [machine.name for machine in scenario.machines]
    rows = [row.name for row in ROWS]
    for pattern in injection.rows:
        machine, _, row = pattern.rpartition("/")
        if machine:
            yield from _unless_known(f"{key}.rows", machine, machines, "machine")
        if not any(fnmatchcase(each, row) for each in rows):
            yield f"{key}.rows", *_missing(row, rows, "row")
    try:
        with_keys(scenario.stack, {injection.step: injection.replace})
    except msgspec.ValidationError as error:
        yield f"{key}.replace", str(error), f"give keys of the step {injection.step}"


@dataclass
class _Standing:
    """What the steps so far have brought about: devices, directories and servers."""

    machines: dict[str, Machine]
    scenario: Scenario
    devices: set[tuple[str, str]] = field(default_factory=set)
    directories: set[tuple[str, str]] = field(default_factory=set)
    servers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for machine in self.machines.values():
            self.devices |= {(machine.name, disk.name) for disk in machine.disks}

    def add(self, key: str, step: Step) -> Found:
        if self.machines[step.machine].nested and not isinstance(step, FileSystem):
            yield f"{key}.machine", "it is nested", "only file systems are built there"
        match step:
            case NullBlock():
                yield from self._new_device(key, step.machine, step.name)
            case FileSystem():
                yield from self._known(f"{key}.device", step.machine, step.device, "device")
                if step.journal:
                    yield from self._known(f"{key}.journal", step.machine, step.journal, "device")
                    if step.type != "ext4":
                        yield f"{key}.journal", f"this is {step.type}", "only ext4 can have one"
                self.directories.add((step.machine, step.directory))
            case NfsServer():
                yield from self._known(f"{key}.directory", step.machine, step.directory)
                self.servers[step.name] = step.machine
            case NfsMount():
                yield from _unless_known(f"{key}.server", step.server, self.servers, "nfs_server")
                yield from self._unless_linked(key, step.machine, self.servers.get(step.server))
                self.directories.add((step.machine, step.directory))
            case Image():
                yield from self._known(f"{key}.directory", step.machine, step.directory)
                yield from self._unless_nested(key, step)
                yield from self._new_device(key, step.guest, step.name)
            case CpuQuota():
                yield from self._unless_nested(key, step)
            case Netem():
                known = [
                    link.name for link in self.scenario.links if step.machine in link.addresses
                ]
                yield from _unless_known(f"{key}.link", step.link, known, "link")

    def _new_device(self, key: str, machine: str, name: str) -> Found:
        if (machine, name) in self.devices:
            yield f"{key}.name", f"there is a disk {name} already", "choose another name"
        self.devices.add((machine, name))

    def _known(self, key: str, machine: str, name: str, what: str = "mount") -> Found:
        found = self.devices if what == "device" else self.directories
        yield from _unless_known(key, name, [each for on, each in found if on == machine], what)

    def _unless_nested(self, key: str, step: Image | CpuQuota) -> Found:
        guests = [each.name for each in self.machines.values() if each.nested == step.machine]
        yield from _unless_known(f"{key}.guest", step.guest, guests, "nested machine")

    def _unless_linked(self, key: str, machine: str, other: str | None) -> Found:
        ends = {machine, other}
        if other and not any(ends == set(link.addresses) for link in self.scenario.links):
            yield f"{key}.server", f"no link joins {machine} and {other}", "declare it: [[links]]"


def _unless_known(key: str, name: str, known: Iterable[str], what: str) -> Found:
    listed = list(known)
    if name not in listed:
        yield key, *_missing(name, listed, what)


def _missing(name: str, known: list[str], what: str) -> tuple[str, str]:
    return f"there is no {what} {name}", (
        choice(name, known, what) if known else f"declare a {what} before it"
    )


def _repeated(key: str, names: Iterable[str]) -> Found:
    for name, count in Counter(names).items():
        if count > 1:
            yield key, f"{count} are named {name}", "give each a name of its own"
