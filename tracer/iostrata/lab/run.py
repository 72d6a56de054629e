# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a Scenario in, each round recorded, analysed and checked, the Result out."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

from iostrata.analysis import Prepared, analyse, breakdown_of, prepare
from iostrata.attribute import summarise
from iostrata.columns import Union
from iostrata.errors import IostrataError, UsageError
from iostrata.lab import checks
from iostrata.lab.cache import LabDirectory, new_lab_directory
from iostrata.lab.checks import Check, Measured, Pair
from iostrata.lab.fault import impending
from iostrata.lab.kept import kept_ns, shared_ns, spans_of, traced
from iostrata.lab.lab import Lab, standing, wait_for_nested
from iostrata.lab.listen import LabListener
from iostrata.lab.problem import choice
from iostrata.lab.record import RECORDER, record, rehearse
from iostrata.lab.scenario import Another, Fault, Fio, Injection, Scenario, with_keys
from iostrata.lab.stack import build
from iostrata.lab.steps.step import Step
from iostrata.lab.topology import Machine
from iostrata.lab.workload import Witness, prolonged
from iostrata.model import Op, Summary
from iostrata.record import Probe, find_recorder, read_probes
from iostrata.recording import open_recording
from iostrata.report import quality

Others = TypeVar("Others", Injection, Fault)

PROBES_LIMIT_S: Final = 180.0
# Columns: none of what is told is longer.
ONE_LINE: Final = 100_000


@dataclass(frozen=True)
class MachineResult:
    name: str
    release: str
    boot_s: float
    probes: tuple[Probe, ...]
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class RoundResult:
    name: str
    recording: Path
    summary: Summary
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Result:
    """``recordings``: where those of this run stay, for a week.

    ``broken``: why it ended before all rounds were measured.
    """

    scenario: str
    recordings: Path
    machines: tuple[MachineResult, ...]
    rounds: tuple[RoundResult, ...]
    broken: IostrataError | None = None

    @property
    def passed(self) -> bool:
        if self.broken:
            return False
        parts = [each.checks for each in self.machines] + [each.checks for each in self.rounds]
        return all(check.passed for found in parts for check in found)


def run(
    scenario: Scenario, name: str, listener: LabListener, keep: bool, only: Sequence[str] = ()
) -> Result:
    """``only``: these rounds, instead of all. Errors: LabError, before the first round."""
    workloads = list(_chosen(scenario, only))
    directory = new_lab_directory(name)
    recordings = directory.recordings
    with furnished(scenario, directory, listener, keep) as lab:
        recordings.mkdir()
        machines = tuple(_observe(lab, each, recordings) for each in scenario.recorded)
        rounds: list[RoundResult] = []
        wanted = sum(
            len(planned(scenario, each, only)) + len(_of(scenario.faults, each, only))
            for each in workloads
        )
        broken = None
        try:
            for workload in workloads:
                for each in _rounds(lab, workload, only, recordings, listener):
                    rounds.append(each)
                    listener.say(f"{_verdict(each)}; {len(rounds)} of {wanted} rounds")
        except IostrataError as error:
            broken = error
    return Result(name, recordings, machines, tuple(rounds), broken)


def up(scenario: Scenario, name: str, listener: LabListener) -> None:
    """Brings it up with its stack and the recorder, and leaves it standing."""
    with furnished(scenario, new_lab_directory(name), listener, keep=False) as lab:
        lab.keep = True


@contextmanager
def furnished(
    scenario: Scenario, directory: LabDirectory, listener: LabListener, keep: bool
) -> Iterator[Lab]:
    """A lab for the block, with its stack and the recorder; after it only if it is kept."""
    with _ended_by_signals(), standing(scenario, directory, listener, keep) as lab:
        _furnish(lab, listener)
        yield lab


def _chosen(scenario: Scenario, only: Sequence[str]) -> Iterator[Fio]:
    """The workloads of these rounds; an injection's or a fault's follows its workload's."""
    others: tuple[Another, ...] = (*scenario.injections, *scenario.faults)
    needed = {each.name: each.workload for each in others}
    needed |= {workload.name: workload.name for workload in scenario.rounds()}
    for name in only:
        if name not in needed:
            raise UsageError(f"the scenario has no round {name}", choice(name, needed, "round"))
    chosen = {needed[name] for name in only or needed}
    return (workload for workload in scenario.rounds() if workload.name in chosen)


def _furnish(lab: Lab, listener: LabListener) -> None:
    """The recorder and the stack, onto the machines.

    What involves no nested machine can be built while those boot.
    """
    listener.say("building the storage stack")
    nested = {each.name for each in lab.scenario.machines if each.nested}
    below = takewhile(lambda step: not nested & {*step.involved()}, lab.scenario.stack)
    build(list(below), lab.site)
    wait_for_nested(lab, listener)
    for declared in lab.scenario.recorded:
        lab.machines[declared.name].send(find_recorder(declared.hardware.machine), RECORDER)
    build(lab.scenario.stack, lab.site)


def _observe(lab: Lab, declared: Machine, recordings: Path) -> MachineResult:
    """What the recorder can observe on that machine, as it stands."""
    name = declared.name
    table = lab.machines[name].command(f"{RECORDER} --probes", PROBES_LIMIT_S)
    (recordings / f"{name}.probes.tsv").write_text(table)
    probes = tuple(read_probes(table.splitlines()))
    found = tuple(checks.observed(declared.observed, probes))
    return MachineResult(name, lab.software[name].kernel.release, lab.boot_s[name], probes, found)


def _rounds(
    lab: Lab, workload: Fio, only: Sequence[str], recordings: Path, listener: LabListener
) -> Iterator[RoundResult]:
    """A workload, then its injections and faults."""
    wanted, scenario = lab.scenario.checks, lab.scenario
    rounds = planned(scenario, workload, only)
    # What is compared is recorded alike.
    who = any(each.injection.behind for each in rounds if each.injection)
    plain: dict[tuple[bool, int], Measured] = {}
    pairs: dict[str, list[Pair]] = {}
    for each in rounds:
        place, injection = recordings / each.name, each.injection
        stack = with_keys(scenario.stack, scenario.steady if each.steady else {})
        if injection:
            stack = with_keys(stack, {injection.step: injection.replace})
        measured = _round(lab, stack, workload, place, listener, who, injection)
        found = tuple(checks.of_round(wanted, measured, lab.pace.factor))
        if not injection:
            plain[each.steady, each.pair] = measured
        else:
            so_far = pairs.setdefault(injection.name, [])
            so_far.append(Pair(measured, plain[each.steady, each.pair]))
            if len(so_far) == wanted.pairs:
                found = (*found, *checks.of_injection(wanted, injection, so_far))
        yield RoundResult(each.name, place, summarise(measured.breakdown, "method"), found)
    for fault in _of(lab.scenario.faults, workload, only):
        place = recordings / fault.name
        struck = _struck(lab, workload, fault, place, listener)
        summary = summarise(struck.breakdown, "method")
        told = [line.plain for line in quality.lines(summary, ONE_LINE)]
        found = tuple(checks.of_fault(wanted, fault, struck, told))
        yield RoundResult(fault.name, place, summary, found)


@dataclass(frozen=True)
class Planned:
    """A round that is to be: the one that an injection's is compared with has none."""

    name: str
    steady: bool
    pair: int
    injection: Injection | None = None


def planned(scenario: Scenario, workload: Fio, only: Sequence[str]) -> list[Planned]:
    """A workload's own round, then pairs of one without and one with each injection."""
    injections = _of(scenario.injections, workload, only)
    found, several = [Planned(workload.name, False, 0)], scenario.checks.pairs > 1
    for pair in range(scenario.checks.pairs):
        number = f".{pair + 1}" if several else ""
        for steady in (False, True):
            among = [each for each in injections if scenario.is_steady(each) == steady]
            if among and (steady or pair):
                name = f"{workload.name}-steady" if steady else workload.name
                found.append(Planned(name + number, steady, pair))
            found += [Planned(each.name + number, steady, pair, each) for each in among]
    return found


def _of(others: Sequence[Others], workload: Fio, only: Sequence[str]) -> list[Others]:
    """The rounds of a workload in which something is done to it."""
    return [
        each
        for each in others
        if each.workload == workload.name and (not only or each.name in only)
    ]


def _verdict(result: RoundResult) -> str:
    failed = [f"{check.name} {check.found}" for check in result.checks if not check.passed]
    return f"{result.name}: " + ("FAILED " + ", ".join(failed) if failed else "ok")


def _round(
    lab: Lab,
    stack: Sequence[Step],
    workload: Fio,
    place: Path,
    listener: LabListener,
    who: bool = False,
    injection: Injection | None = None,
    begun: Callable[[], None] = lambda: None,
) -> Measured:
    """``who``: who has the CPUs is recorded. ``injection``: of which the kernel may be asked for
    how long it kept the writes. ``begun``: see ``record``."""
    build(stack, lab.site)
    rehearse(lab, workload)
    if not injection or not injection.kept:
        before_ns = _waited_ns(lab)
        witness = record(lab, workload, place, listener, who, begun)
        waited_ns = (_waited_ns(lab) - before_ns) / max(witness.count, 1)
        breakdown = analyse(open_recording(place), Op(workload.op))
        return Measured(breakdown, witness, waited_ns=waited_ns)
    (step,) = (each for each in stack if each.name == injection.step)
    calls = place / "functions"
    with traced(lab.machines[step.machine], injection.kept, calls):
        witness = record(lab, workload, place, listener, who, begun)
    spans = spans_of(calls.read_text(), injection.kept)
    found = prepare(open_recording(place), Op(workload.op))
    return _kept(found, witness, workload, step, injection, spans)


def _waited_ns(lab: Lab) -> int:
    """Nested machines have the process of the one that they are in."""
    return sum(process.waited_ns for process in {each.process for each in lab.machines.values()})


def _kept(
    found: Prepared,
    witness: Witness,
    workload: Fio,
    step: Step,
    injection: Injection,
    spans: Union,
) -> Measured:
    """``spans``: by the clock of the step's machine."""
    traces = {member.trace.machine: member.trace for member in found.path.members}
    own, other = traces[workload.machine], traces[step.machine]
    if not injection.behind:
        kept = kept_ns(found.writes, own, spans)
    else:
        begins, ends = (found.path.times(each, other, own) for each in (spans.begins, spans.ends))
        kept = shared_ns(found.writes, Union(begins, ends))
    return Measured(breakdown_of(found), witness, kept)


def _struck(lab: Lab, workload: Fio, fault: Fault, place: Path, listener: LabListener) -> Measured:
    (declared,) = (each for each in lab.scenario.machines if each.name == fault.machine)
    machine, writer = lab.machines[fault.machine], lab.machines[workload.machine]
    workload = prolonged(workload, lab.pace)
    if fault.before:
        machine.command(fault.before)
    with impending(fault, machine, writer, nested=bool(declared.nested)) as strike:
        found = _round(lab, lab.scenario.stack, workload, place, listener, begun=strike)
    return replace(found, struck_ns=(strike.since_ns, strike.until_ns))


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end a lab as Ctrl-C does: with its teardown."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, _interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
