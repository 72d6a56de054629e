# SPDX-License-Identifier: Apache-2.0
"""Record stage: the recorder's trial of every probe in, what of each layer can be seen out."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from iostrata.errors import RecorderError
from iostrata.layers import VISIBILITY, Visibility
from iostrata.record.mounts import Carried, carried_mounts
from iostrata.record.permission import Refusal, lacking, refusal
from iostrata.record.recorder import find_recorder
from iostrata.record.system import System, system

OK: Final = "ok"
UNUSED: Final = "unused"


@dataclass(frozen=True)
class Probe:
    """``result``: ``ok``, ``unused``, or the errno's name; ``text``: why."""

    program: str
    points: tuple[str, ...]
    layer: str
    result: str
    text: str

    @property
    def works(self) -> bool:
        return self.result == OK


# Errors that mean: there is no such point in this kernel, or its module is not loaded.
MISSING: Final = ("ENOENT", "ESRCH")


@dataclass(frozen=True)
class Verdict:
    """One layer. ``seen``: ``yes``, ``partly``, ``no``, ``absent``, or ``not tried``."""

    visibility: Visibility
    seen: str
    working: tuple[Probe, ...]
    broken: tuple[Probe, ...]


@dataclass(frozen=True)
class Diagnosis:
    """``observable``: the path of a write on this machine can be seen.

    ``lacking``: capabilities that more could be seen with.
    """

    machine: System
    refusal: Refusal | None
    verdicts: tuple[Verdict, ...]
    mounts: tuple[Carried, ...] = ()
    lacking: tuple[str, ...] = ()

    @property
    def observable(self) -> bool:
        return all(
            verdict.seen in ("yes", "partly")
            for verdict in self.verdicts
            if verdict.visibility.needed
        )


def diagnose() -> Diagnosis:
    """What this machine can observe, tried out; without root only what can be read."""
    refused = refusal()
    probes: list[Probe] = []
    if not refused:
        try:
            probes = try_probes()
        except RecorderError as error:
            refused = Refusal(str(error), error.hint)
    without = () if refused else lacking()
    return Diagnosis(system(), refused, verdicts(probes), carried_mounts(), without)


def try_probes() -> list[Probe]:
    """Loads and attaches every program once. Errors: RecorderError."""
    tried = subprocess.run(
        [str(find_recorder()), "--probes"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    probes = read_probes(tried.stdout.splitlines())
    if not probes:
        why = tried.stderr.strip().splitlines() or [f"status {tried.returncode}"]
        raise RecorderError(f"the recorder cannot try its probes: {why[-1]}")
    return probes


def read_probes(lines: Iterable[str]) -> list[Probe]:
    """The recorder's table, tab separated: program, points, layer, result, text."""
    cells = [line.split("\t") for line in lines]
    return [
        Probe(program, tuple(points.split(",")), layer, result, text)
        for program, points, layer, result, text in (row for row in cells if len(row) == 5)
        if program != "program"
    ]


def verdicts(probes: Sequence[Probe]) -> tuple[Verdict, ...]:
    return tuple(_verdict(visibility, probes) for visibility in VISIBILITY)


def _verdict(visibility: Visibility, probes: Sequence[Probe]) -> Verdict:
    own = [
        probe
        for probe in probes
        if probe.result != UNUSED
        and (probe.layer in visibility.prefixes or probe.program in visibility.programs)
    ]
    working = tuple(probe for probe in own if probe.works)
    broken = tuple(probe for probe in own if not probe.works)
    if not probes:
        seen = "not tried"
    elif visibility.absent and all(probe.result in MISSING for probe in own):
        seen = "absent"
    elif not working or (visibility.programs and broken):
        seen = "no"
    else:
        seen = "partly" if broken else "yes"
    return Verdict(visibility, seen, working, broken)
