# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a Scenario in, what no single key of it can show to be wrong out."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, Final

import msgspec

from iostrata.lab.problem import Problems, missing, repeated, unless_known
from iostrata.lab.qemu import DISKS
from iostrata.lab.scenario import Fault, Injection, Scenario, with_checks, with_keys, with_variant
from iostrata.lab.steps import Service
from iostrata.lab.steps.step import Ground
from iostrata.layers import ROWS

# The architecture whose machines the lab can put into another one.
NESTABLE: Final = "amd64"


def contradictions(scenario: Scenario) -> Problems:
    """The first is what to tell: those after it may be its consequence."""
    yield from _machines(scenario)
    yield from _links(scenario)
    yield from _stack(scenario)
    yield from _rounds(scenario)
    for number, variant in enumerate(scenario.variants):
        key = f"variants[{number}].replace"
        known = [part.name for part in (*scenario.machines, *scenario.stack)]
        for name, replace in variant.replace.items():
            yield from unless_known(key, name, known, "machine or step")
            yield from _values(key, name, replace, scenario)
        try:
            with_checks(scenario, variant)
        except msgspec.ValidationError as error:
            yield f"variants[{number}].checks", str(error), "give keys of checks"
            continue
        try:
            changed = with_variant(scenario, variant)
            yield from _machines(changed)
            yield from _stack(changed)
            yield from _rounds(changed, f"variants[{number}].")
        except msgspec.ValidationError as error:
            yield key, str(error), "give keys of machines and steps"


def _machines(scenario: Scenario) -> Problems:
    yield from repeated("machines", (machine.name for machine in scenario.machines))
    carriers = {each.name: each for each in scenario.machines if not each.nested}
    for number, machine in enumerate(scenario.machines):
        key = f"machines[{number}]"
        if machine.nested:
            yield from unless_known(f"{key}.nested", machine.nested, carriers, "machine")
        if machine.nested and machine.disks:
            yield f"{key}.disks", "it is nested", "give it an image step instead"
        pair = {machine.architecture, carriers.get(machine.nested or "", machine).architecture}
        if machine.nested and pair != {NESTABLE}:
            yield f"{key}.nested", f"both must be {NESTABLE}", f'architecture = "{NESTABLE}"'


def _links(scenario: Scenario) -> Problems:
    yield from repeated("links", (link.name for link in scenario.links))
    machines = [machine.name for machine in scenario.machines]
    for number, link in enumerate(scenario.links):
        key = f"links[{number}].addresses"
        for machine in link.addresses:
            yield from unless_known(key, machine, machines, "machine")
        if len(link.addresses) != 2:
            yield key, f"a link has two ends, not {len(link.addresses)}", "name two machines"


def _stack(scenario: Scenario) -> Problems:
    yield from repeated("stack", (step.name for step in scenario.stack))
    ground = Ground({machine.name: machine for machine in scenario.machines}, scenario.links)
    for number, step in enumerate(scenario.stack):
        at = f"stack[{number}]"
        yield from unless_known(f"{at}.machine", step.machine, ground.machines, "machine")
        for key, problem, hint in chain(step.check(ground), ground.add(step)):
            yield f"{at}.{key}", problem, hint


def _rounds(scenario: Scenario, of: str = "") -> Problems:
    """``of``: the keys that its faults are below."""
    rounds = list(scenario.rounds())
    others = (*scenario.injections, *scenario.faults)
    names = [each.name for each in rounds] + [each.name for each in others]
    yield from repeated("workloads, injections and faults", names)
    mounts = [(step.machine, mount) for step in scenario.stack for mount in step.mounts()]
    machines = [machine.name for machine in scenario.recorded]
    for number, workload in enumerate(scenario.workloads):
        key = f"workloads[{number}]"
        yield from unless_known(f"{key}.machine", workload.machine, machines, "recorded machine")
        # Or a disk itself, as fio's filename.
        known = [mount for machine, mount in mounts if machine == workload.machine] + [DISKS]
        yield from unless_known(f"{key}.directory", workload.directory, known, "mount")
    yield from _steady(scenario)
    for number, injection in enumerate(scenario.injections):
        yield from _injection(f"injections[{number}]", injection, scenario)
    for number, fault in enumerate(scenario.faults):
        yield from _fault(f"{of}faults[{number}]", fault, scenario)


def _steady(scenario: Scenario) -> Problems:
    steps = [step.name for step in scenario.stack]
    for name, replace in scenario.steady.items():
        yield from unless_known("steady", name, steps, "step")
        yield from _values(f"steady.{name}", name, replace, scenario)
    try:
        with_keys(scenario.stack, scenario.steady)
    except msgspec.ValidationError as error:
        yield "steady", str(error), "give keys of steps"


def _injection(key: str, injection: Injection, scenario: Scenario) -> Problems:
    workloads = [workload.name for workload in scenario.rounds()]
    steps = [step.name for step in scenario.stack]
    yield from unless_known(f"{key}.workload", injection.workload, workloads, "workload")
    yield from unless_known(f"{key}.step", injection.step, steps, "step")
    machines = [machine.name for machine in scenario.machines]
    rows = [row.name for row in ROWS]
    for pattern in injection.rows:
        machine, _, row = pattern.rpartition("/")
        if machine:
            yield from unless_known(f"{key}.rows", machine, machines, "machine")
        if not any(fnmatchcase(each, row) for each in rows):
            yield f"{key}.rows", *missing(row, rows, "row")
    yield from _values(f"{key}.replace", injection.step, injection.replace, scenario)
    try:
        with_keys(scenario.stack, {injection.step: injection.replace})
    except msgspec.ValidationError as error:
        yield f"{key}.replace", str(error), f"give keys of the step {injection.step}"


def _fault(key: str, fault: Fault, scenario: Scenario) -> Problems:
    workloads = [workload.name for workload in scenario.rounds()]
    yield from unless_known(f"{key}.workload", fault.workload, workloads, "workload")
    machines = [machine.name for machine in scenario.machines]
    yield from unless_known(f"{key}.machine", fault.machine, machines, "machine")
    if bool(fault.command or fault.monitor) == bool(fault.halted_s):
        yield key, "it is one thing that goes wrong", "give either command or halted_s"
    nested = [machine.name for machine in scenario.machines if machine.nested]
    if fault.monitor:
        yield from unless_known(f"{key}.monitor", fault.machine, nested, "nested machine")


def _values(key: str, name: str, replace: dict[str, Any], scenario: Scenario) -> Problems:
    """Of a service: none that its shell does not know."""
    for step in scenario.stack:
        if step.name == name and isinstance(step, Service):
            for value in replace.get("values", ()):
                yield from unless_known(f"{key}.values", value, step.values, "value")
