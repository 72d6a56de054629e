# SPDX-License-Identifier: Apache-2.0
"""Lab stage: what a scenario declares: where to record what, with which delays, to find what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from iostrata.lab.schema import Count, Name, Place, Strict
from iostrata.lab.steps import AnyStep
from iostrata.lab.topology import Link, Machine

Named = TypeVar("Named", Machine, AnyStep)
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Fio(Strict, tag="fio", tag_field="kind", frozen=True, kw_only=True):
    """``options``: fio's own, as on its command line. ``op``: what of it is measured.

    None of all that it reads: that is more than it gives account of (its own program, /proc).
    ``late``: of its mean, what may pass until it looks at its ring, which it does without a call.
    """

    name: Name
    machine: Name
    directory: Place
    options: dict[str, str | int]
    op: Literal["sync", "direct"] = "sync"
    late: Share = 0.0


Method = Literal["open_datasync", "fdatasync", "fsync", "open_sync"]
METHODS: dict[str, dict[str, str | int]] = {
    "open_datasync": {"sync": "dsync"},
    "fdatasync": {"fdatasync": 1},
    "fsync": {"fsync": 1},
    "open_sync": {"sync": "sync"},
}


class Methods(Strict, tag="methods", tag_field="kind", frozen=True, kw_only=True):
    """A workload for each of pg_test_fsync's methods and each number of jobs, by fio.

    All jobs together make ``writes`` writes of ``size_bytes``, each to an offset of its
    own that was written before. The workloads bear the method's name, and the number
    of jobs if it isn't one.
    """

    machine: Name
    directory: Place
    methods: tuple[Method, ...] = ("open_datasync", "fdatasync", "fsync", "open_sync")
    jobs: tuple[Count, ...] = (1,)
    writes: Count = 1024
    size_bytes: Count = 8192


class Another(Strict, frozen=True, kw_only=True):
    """Another round of ``workload``."""

    name: Name
    workload: Name


class Injection(Another, frozen=True, kw_only=True):
    """With keys of ``step`` replaced.

    The step then delays each write by ``delay_ns``, or if that is left out by what the
    workload itself takes longer; that must be found in ``rows``, which are names of
    layers or patterns of them, such as ``server/device.*``.

    ``kept``: two functions of the kernel, which begin and end what keeps the workload's only
    thread from its only CPU. The rows are then held against how long that kept it in its calls.

    ``instead``: rows, named alike, that may hold less then: what they are of was waited for, and is
    done while the other is still waited for. So much the delay is longer than the workload's. Where
    ``delay_ns`` is given, they may hold more as well: what is always waited for now was not always.

    ``steady``: whether it is, and what it is compared with, among what the scenario's says.

    ``behind``: a process or a virtual machine that was in the way: what the rows hold more must be
    said to be its. With ``kept``, it has the only CPU of its step's machine between its calls of
    the two functions, and what the rows say to be its is held against how much of the writes that
    was.
    """

    step: Name
    replace: dict[str, Any]
    delay_ns: Count | None = None
    rows: tuple[str, ...]
    instead: tuple[str, ...] = ()
    kept: tuple[str, str] | None = None
    steady: bool = True
    behind: str = ""


Excused = Literal["lost", "count", "analysed", "mean", "residual", "followed"]


class Asked(Strict, frozen=True, kw_only=True):
    """What a nested machine's QEMU is asked for by QMP, ``after_s`` later than what is before it.

    ``until``: the event that QEMU tells of its end by, if its answer is not that; ``within_s``:
    for how long it is waited for, where nothing else runs.
    """

    execute: str
    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict)
    until: str = ""
    after_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    within_s: Annotated[float, msgspec.Meta(gt=0)] = 30.0


class Fault(Another, frozen=True, kw_only=True):
    """In its midst something goes wrong on ``machine``.

    That is what its QEMU is asked for (``monitor``), then ``command``, by its shell; or that it is
    halted for ``halted_s``; so many seconds after the workload was under way. ``before``: a command
    there, before it is recorded. ``told``: what must be among the lines below the table then, as
    patterns of a line; ``excused``: the checks that need not hold; ``unfollowed``: so many writes
    may have asked for what no machine ever had. Where none is given, the table must be as right as
    if nothing had happened.
    """

    machine: Name
    after_s: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    before: str = ""
    monitor: tuple[Asked, ...] = ()
    command: str = ""
    halted_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    told: tuple[str, ...] = ()
    excused: tuple[Excused, ...] = ()
    unfollowed: Annotated[int, msgspec.Meta(ge=0)] = 0


class Checks(Strict, frozen=True, kw_only=True):
    """What must be found in every round; conservation is checked without being asked for.

    ``count``: as many writes as the workload made. ``skipped``: hits that the kernel may skip
    programs for, of the writes. ``mean_deviation``: from the workload's own.
    ``followed``: writes of which all was found on the machines below, of which none stands
    apart; None: not asked. ``beyond``: of what waited for anything beyond a machine's own
    kernel, what has time in rows of a machine below it; None: as ``followed``. ``found`` and
    ``elsewhere``: of an injection's delay, in its rows at least and in any other row at most,
    against the round without it; as medians of so many ``pairs`` of rounds.
    """

    count: bool = True
    analysed: Share = 0.999
    skipped: Share = 0.01
    mean_deviation: Share = 0.03
    residual: Share = 0.01
    followed: Share | None = None
    beyond: Share | None = None
    found: Share = 0.95
    elsewhere: Share = 0.03
    pairs: Count = 1


class Variant(Strict, frozen=True, kw_only=True):
    """The scenario once more, as NAME-VARIANT, with keys of machines and steps replaced.

    It has no injections, and only ``faults`` of its own. ``checks``: keys that it replaces, too.
    """

    name: Name
    description: str
    replace: dict[Name, dict[str, Any]]
    checks: dict[str, Any] = msgspec.field(default_factory=dict)
    faults: tuple[Fault, ...] = ()


class Scenario(Strict, frozen=True, kw_only=True):
    """``packets``: the ports of servers whose packets are recorded, too.

    ``steady``: keys of steps that are replaced in all rounds of injections, and in those that they
    are compared with: waits that are long already, as who waits longer finds a slower CPU.
    """

    description: str
    machines: Annotated[tuple[Machine, ...], msgspec.Meta(min_length=1)]
    links: tuple[Link, ...] = ()
    stack: tuple[AnyStep, ...] = ()
    workloads: Annotated[tuple[Fio | Methods, ...], msgspec.Meta(min_length=1)]
    injections: tuple[Injection, ...] = ()
    faults: tuple[Fault, ...] = ()
    variants: tuple[Variant, ...] = ()
    checks: Checks = Checks()
    packets: tuple[Count, ...] = ()
    steady: dict[Name, dict[str, Any]] = msgspec.field(default_factory=dict)

    def is_steady(self, injection: Injection) -> bool:
        return bool(self.steady) and injection.steady

    @property
    def recorded(self) -> list[Machine]:
        return [machine for machine in self.machines if machine.recorded]

    def packages(self, machine: str) -> list[str]:
        """Debian's, which that machine must have, sorted."""
        steps = (step for step in self.stack if machine in step.involved())
        wanted = {package for step in steps for package in step.packages(machine)}
        if any(workload.machine == machine for workload in self.workloads):
            wanted.add("fio")
        return sorted(wanted)

    def slots(self, machine: str) -> list[str]:
        """What steps plug into that machine."""
        return [name for step in self.stack for name in step.slots(machine)]

    def shares(self, machine: str) -> dict[str, str]:
        """The directories of the one below that its QEMU serves to that machine, by name."""
        return dict(share for step in self.stack for share in step.shares(machine))

    def modules(self, machine: Machine) -> list[str]:
        """Of the kernel, which that machine must have loaded; with their parameters."""
        steps = (step for step in self.stack if machine.name in step.involved())
        wanted = [module for step in steps for module in step.modules(machine.name)]
        return list(dict.fromkeys([*wanted, *machine.modules]))

    def rounds(self) -> Iterator[Fio]:
        """The workloads one by one."""
        for workload in self.workloads:
            if isinstance(workload, Methods):
                yield from _each(workload)
            else:
                yield workload


def _each(workload: Methods) -> Iterator[Fio]:
    for jobs in workload.jobs:
        size_bytes = workload.writes // jobs * workload.size_bytes
        for method in workload.methods:
            yield Fio(
                name=method if jobs == 1 else f"{method}-{jobs}",
                machine=workload.machine,
                directory=workload.directory,
                options={
                    "rw": "randwrite",
                    "bs": workload.size_bytes,
                    "size": size_bytes,
                    "numjobs": jobs,
                    "overwrite": 1,
                    **METHODS[method],
                },
            )


def with_kernel(scenario: Scenario, kernel: str) -> Scenario:
    """The same scenario, every machine with that kernel."""
    machines = (msgspec.structs.replace(machine, kernel=kernel) for machine in scenario.machines)
    return msgspec.structs.replace(scenario, machines=tuple(machines))


def with_pairs(scenario: Scenario, pairs: int) -> Scenario:
    """The same scenario, each injection in so many pairs of rounds."""
    checks = msgspec.structs.replace(scenario.checks, pairs=pairs)
    return msgspec.structs.replace(scenario, checks=checks)


def with_variant(scenario: Scenario, variant: Variant) -> Scenario:
    """Errors: msgspec.ValidationError."""
    return msgspec.structs.replace(
        scenario,
        description=variant.description,
        machines=with_keys(scenario.machines, variant.replace),
        stack=with_keys(scenario.stack, variant.replace),
        checks=with_checks(scenario, variant),
        injections=(),
        faults=variant.faults,
        variants=(),
    )


def with_checks(scenario: Scenario, variant: Variant) -> Checks:
    """Errors: msgspec.ValidationError."""
    return msgspec.convert({**msgspec.to_builtins(scenario.checks), **variant.checks}, type=Checks)


def with_keys(
    parts: Iterable[Named], replace: Mapping[str, Mapping[str, Any]]
) -> tuple[Named, ...]:
    """Machines or steps, with keys of the named ones replaced. Errors: msgspec.ValidationError."""
    return tuple(
        msgspec.convert(_replaced(msgspec.to_builtins(part), replace[part.name]), type=type(part))
        if part.name in replace
        else part
        for part in parts
    )


def _replaced(keys: dict[str, Any], replace: Mapping[str, Any]) -> dict[str, Any]:
    """Of a table within it, such as a service's values, only the keys that are given."""
    changed = {
        key: _replaced(keys[key], value)
        if isinstance(value, dict) and isinstance(keys.get(key), dict)
        else value
        for key, value in replace.items()
    }
    return {**keys, **changed}
