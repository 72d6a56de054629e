# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a standing Lab and a workload in, a recording of all its machines out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from iostrata.errors import LabError
from iostrata.lab.lab import Lab
from iostrata.lab.listen import LabListener
from iostrata.lab.scenario import Fio
from iostrata.lab.transport import LOG, LabTransport
from iostrata.lab.workload import (
    PREPARATION_LIMIT_S,
    Witness,
    command,
    preparation,
    rehearsal,
    witness,
)
from iostrata.record import Plan, Planned, Progress, Request, record_machines

# In a machine.
RECORDER: Final = "/run/iostrata-record"
ACCOUNT: Final = "/run/account"
# Of the machine that writes: a few tens of writes' worth; what starts a program is no write.
UNDER_WAY: Final = 500


def rehearse(lab: Lab, workload: Fio) -> None:
    """Its beginning, not recorded: what never ran on an emulated CPU is slow there. LabError."""
    words = shlex.join(rehearsal(workload, ACCOUNT))
    machine = lab.machines[workload.machine]
    machine.command(f"{_prepared(workload)} && {words}", PREPARATION_LIMIT_S)


def record(
    lab: Lab,
    workload: Fio,
    place: Path,
    listener: LabListener,
    who: bool = False,
    begun: Callable[[], None] = lambda: None,
) -> Witness:
    """Into the directory ``place``, with the workload's own account beside. Errors: LabError.

    ``who``: also who has the CPUs. ``begun`` is called once the workload writes.
    """
    machine = lab.machines[workload.machine]
    words = command(workload, ACCOUNT)
    listener.say(f"{place.name}: {shlex.join(words)}")
    machine.command(_prepared(workload), PREPARATION_LIMIT_S)
    planned = tuple(
        Planned(each.name, each.role, LabTransport(lab.machines[each.name]), RECORDER)
        for each in lab.scenario.recorded
    )
    place.mkdir(parents=True)
    request = Request(place, words, who=who, op=workload.op, packets=lab.scenario.packets)
    outcome = record_machines(
        Plan(request, planned, machine.name, lab.pace.factor),
        _Told(listener, machine.name, begun),
    )
    listener.heard({})
    if outcome.interrupted_by:
        raise KeyboardInterrupt
    if outcome.exit_status:
        said = machine.command(f"tail -n 5 {LOG}")
        raise LabError(f"{place.name}: fio ended with status {outcome.exit_status}: {said}")
    account = place / "fio.json"
    machine.fetch(ACCOUNT, account)
    return witness(account.read_bytes(), workload.op, workload.late)


def _prepared(workload: Fio) -> str:
    return f"{shlex.join(preparation(workload, ACCOUNT))} && sync"


class _Told:
    """What the recording tells, told on."""

    def __init__(self, listener: LabListener, writer: str, begun: Callable[[], None]) -> None:
        self._listener = listener
        self._writer = writer
        self._begun = [begun]

    def say(self, text: str) -> None:
        """Of its steps, which are many and quick, nothing."""

    def warn(self, text: str) -> None:
        self._listener.say(text)

    def ready(self) -> None:
        """It has a program to start yet, which takes a moment."""

    def heard(self, progress: Mapping[str, Progress]) -> None:
        self._listener.heard(progress)
        if self._writer in progress and progress[self._writer].events >= UNDER_WAY:
            while self._begun:
                self._begun.pop()()
