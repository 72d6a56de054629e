# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a Scenario in, each round recorded, analysed and checked, the Result out."""

from __future__ import annotations

import shlex
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Final

from iostrata.attribute.summarise import summarise
from iostrata.lab import checks
from iostrata.lab.cache import cache
from iostrata.lab.checks import Check
from iostrata.lab.lab import Lab, standing
from iostrata.lab.listen import Listener
from iostrata.lab.machine import RunningMachine
from iostrata.lab.scenario import Machine as Declared
from iostrata.lab.scenario import Scenario, Step, Workload, with_injection
from iostrata.lab.workload import Witness, command, limit_s, preparation, witness
from iostrata.model import Breakdown, Summary
from iostrata.pipeline import analyse
from iostrata.record import find_recorder
from iostrata.record.diagnosis import Probe, read_probes
from iostrata.recording import Machine, open_recording, write_recording_json

# In a machine.
RECORDER: Final = "/run/iostrata-record"
TRACE: Final = "/run/trace"
ACCOUNT: Final = "/run/account"
PROBES_LIMIT_S: Final = 120.0


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
    """``recordings``: where those of this run stay, until the next run of the scenario."""

    scenario: str
    recordings: Path
    machines: tuple[MachineResult, ...]
    rounds: tuple[RoundResult, ...]

    @property
    def passed(self) -> bool:
        parts = [each.checks for each in self.machines] + [each.checks for each in self.rounds]
        return all(check.passed for found in parts for check in found)


def run(scenario: Scenario, name: str, listener: Listener, keep: bool) -> Result:
    """Errors: LabError, and all that an analysis can raise."""
    recordings = cache() / "recordings" / name
    shutil.rmtree(recordings, ignore_errors=True)
    with _ended_by_signals(), standing(scenario, name, listener, keep) as lab:
        for declared in scenario.machines:
            _load(declared, lab.machines[declared.name])
        lab.build(scenario.stack)  # a file system's points are there once its module is
        machines = tuple(
            _observe(scenario, lab, machine, recordings) for machine in lab.machines.values()
        )
        rounds = tuple(_rounds(scenario, lab, recordings, listener))
    return Result(name, recordings, machines, rounds)


def up(scenario: Scenario, name: str, listener: Listener) -> None:
    """Brings it up with its stack and the recorder, and leaves it standing."""
    with _ended_by_signals(), standing(scenario, name, listener, keep=False) as lab:
        for declared in scenario.machines:
            _load(declared, lab.machines[declared.name])
        lab.build(scenario.stack)
        lab.keep = True


def _load(declared: Declared, machine: RunningMachine) -> None:
    """The recorder and the modules that the scenario wants, onto the machine."""
    machine.send(find_recorder(), RECORDER)
    if declared.modules:
        machine.command(shlex.join(["modprobe", "--all", *declared.modules]))


def _observe(
    scenario: Scenario, lab: Lab, machine: RunningMachine, recordings: Path
) -> MachineResult:
    """What the recorder can observe on that machine, as it stands."""
    table = machine.command(f"{RECORDER} --probes", PROBES_LIMIT_S)
    recordings.mkdir(parents=True, exist_ok=True)
    (recordings / f"{machine.name}.probes.tsv").write_text(table)
    probes = tuple(read_probes(table.splitlines()))
    return MachineResult(
        machine.name,
        lab.releases[machine.name],
        lab.boot_s[machine.name],
        probes,
        tuple(checks.observed(scenario.checks, probes)),
    )


def _rounds(
    scenario: Scenario, lab: Lab, recordings: Path, listener: Listener
) -> Iterator[RoundResult]:
    """Each workload, then each of its injections, on a stack built anew."""
    for workload in scenario.workloads:
        plain, witnessed = _round(
            scenario, lab, scenario.stack, workload, recordings / workload.name, listener
        )
        yield _result(
            workload.name,
            recordings / workload.name,
            plain,
            checks.of_round(scenario.checks, plain, witnessed),
        )
        for injection in scenario.injections:
            if injection.workload != workload.name:
                continue
            place = recordings / injection.name
            stack = with_injection(scenario.stack, injection)
            delayed, witnessed = _round(scenario, lab, stack, workload, place, listener)
            yield _result(
                injection.name,
                place,
                delayed,
                (
                    *checks.of_round(scenario.checks, delayed, witnessed),
                    *checks.of_injection(scenario.checks, injection, delayed, plain),
                ),
            )


def _round(
    scenario: Scenario,
    lab: Lab,
    stack: Sequence[Step],
    workload: Workload,
    place: Path,
    listener: Listener,
) -> tuple[Breakdown, Witness]:
    """Builds the stack, records the workload there, fetches and analyses the recording."""
    lab.build(stack)
    machine = lab.machines[workload.machine]
    words = command(workload, ACCOUNT)
    listener.say(f"{place.name}: {shlex.join(words)}")
    machine.command(f"{shlex.join(preparation(workload, ACCOUNT))} && sync", limit_s(workload))
    machine.command(f"rm -rf {TRACE} {ACCOUNT}")
    recorded = shlex.join([RECORDER, "-o", TRACE, "--", *words])
    machine.command(recorded, limit_s(workload))
    declared = next(each for each in scenario.machines if each.name == machine.name)
    recorded_machine = Machine(declared.name, declared.role, declared.name)
    machine.fetch(TRACE, place / declared.name)
    machine.fetch(ACCOUNT, place / "fio.json")
    write_recording_json(
        place,
        (recorded_machine,),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=words,
        exit_status=0,
    )
    return analyse(open_recording(place)), witness((place / "fio.json").read_bytes())


def _result(
    name: str, place: Path, breakdown: Breakdown, found: Iterator[Check] | Sequence[Check]
) -> RoundResult:
    return RoundResult(name, place, summarise(breakdown, "method"), tuple(found))


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
