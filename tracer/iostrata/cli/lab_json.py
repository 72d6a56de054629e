# SPDX-License-Identifier: Apache-2.0
"""What a lab found as JSON, schema ``iostrata.lab/1``."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from iostrata import lab
from iostrata.report import Breakdown, json, text


class Program(Struct, frozen=True):
    """One of the recorder's. ``result``: ``ok``, ``unused``, or the errno's name; ``text``: why."""

    program: str
    result: str
    text: str | None


class Check(Struct, frozen=True):
    """``found`` and ``wanted``: text for people."""

    name: str
    passed: bool
    found: str
    wanted: str


class LabMachine(Struct, frozen=True):
    """``boot_s``: until it could be logged into."""

    name: str
    kernel: str
    boot_s: float
    probes: list[Program]
    checks: list[Check]


class Round(Struct, frozen=True):
    """``recording``: its directory."""

    name: str
    recording: str
    checks: list[Check]
    breakdown: Breakdown


class Lab(Struct, frozen=True, tag_field="schema", tag="iostrata.lab/1"):
    """One run of a scenario. ``broken``: why it ended before all rounds were measured, or null."""

    scenario: str
    passed: bool
    broken: str | None
    machines: list[LabMachine]
    rounds: list[Round]


def render(result: lab.Result) -> str:
    return text(document(result))


def document(result: lab.Result) -> Lab:
    return Lab(
        scenario=result.scenario,
        passed=result.passed,
        broken=str(result.broken) if result.broken else None,
        machines=[
            LabMachine(
                name=machine.name,
                kernel=machine.release,
                boot_s=round(machine.boot_s, 3),
                probes=[
                    Program(probe.program, probe.result, probe.text or None)
                    for probe in machine.probes
                ],
                checks=_checks(machine.checks),
            )
            for machine in result.machines
        ],
        rounds=[
            Round(
                name=each.name,
                recording=str(each.recording),
                checks=_checks(each.checks),
                breakdown=json.document(each.summary),
            )
            for each in result.rounds
        ],
    )


def _checks(checks: Sequence[lab.Check]) -> list[Check]:
    return [Check(check.name, bool(check.passed), check.found, check.wanted) for check in checks]
