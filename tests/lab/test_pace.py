# SPDX-License-Identifier: Apache-2.0
"""Limits grow with what machines take here, up to a bound."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iostrata.errors import LabError
from iostrata.lab.control import Control
from iostrata.lab.machine import COMMAND_LIMIT_S, RunningMachine
from iostrata.lab.pace import BOOT_S, BOUND, Pace
from iostrata.lab.port import make_port
from iostrata.lab.process import process
from iostrata.record.transport import STATUS_TIME_LIMIT, Done


@pytest.mark.parametrize(
    ("boots_s", "factor"),
    [
        ((), 1),
        ((BOOT_S / 2,), 1),
        ((3 * BOOT_S,), 3),
        ((4 * BOOT_S, BOOT_S), 4),
        ((1e6,), BOUND),
    ],
)
def test_limits_grow_as_boots_take_longer(boots_s: tuple[float, ...], factor: float) -> None:
    pace = Pace()
    for took_s in boots_s:
        pace.booted(took_s)
    assert pace.limit_s(60) == 60 * factor


def test_before_the_first_boot_it_is_known_how_busy_the_cpus_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (12.0, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    pace = Pace()
    pace.loaded()
    assert pace.limit_s(180) == 180 * 6


def test_a_command_has_more_time_on_a_machine_that_booted_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    def run(self: Control, command: str, limit_s: float) -> Done:
        limits.append(limit_s)
        return Done(STATUS_TIME_LIMIT, "")

    monkeypatch.setattr(Control, "run", run)
    make_port(tmp_path / "control")
    machine = RunningMachine("slow", tmp_path, process(os.getpid()), Pace())
    machine.pace.booted(4 * BOOT_S)
    with pytest.raises(LabError, match="machine slow: true: did not end in 240 s"):
        machine.command("true")
    assert limits == [4 * COMMAND_LIMIT_S]
    machine.close()
