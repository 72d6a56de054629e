# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a scenario in; its machines brought up, recorded, checked and taken down."""

from __future__ import annotations

from iostrata.lab.checks import Check
from iostrata.lab.kernels import SUITES, check_series
from iostrata.lab.listen import LabListener
from iostrata.lab.read import ScenarioError, find_scenario, scenarios
from iostrata.lab.run import MachineResult, Result, RoundResult, run, up
from iostrata.lab.scenario import Scenario, with_kernel, with_pairs
from iostrata.lab.standing import execute, find_machine, take_down

__all__ = [
    "SUITES", "Check", "LabListener", "MachineResult", "Result", "RoundResult", "Scenario",
    "ScenarioError", "check_series", "execute", "find_machine", "find_scenario", "run", "scenarios",
    "take_down", "up", "with_kernel", "with_pairs",
]  # fmt: skip
