# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a scenario in; its machines brought up, recorded, checked and taken down."""

from __future__ import annotations

from iostrata.lab.checks import Check
from iostrata.lab.kernels import SUITES, check_series
from iostrata.lab.lab import execute, find_machine, take_down
from iostrata.lab.listen import Listener
from iostrata.lab.run import MachineResult, Result, RoundResult, run, up
from iostrata.lab.scenario import (
    Scenario,
    ScenarioError,
    find_scenario,
    read_scenario,
    scenario_files,
    with_kernel,
)

__all__ = [
    "SUITES",
    "Check",
    "Listener",
    "MachineResult",
    "Result",
    "RoundResult",
    "Scenario",
    "ScenarioError",
    "check_series",
    "execute",
    "find_machine",
    "find_scenario",
    "read_scenario",
    "run",
    "scenario_files",
    "take_down",
    "up",
    "with_kernel",
]
