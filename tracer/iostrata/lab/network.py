# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a declared delay of a link in, packets that wait out."""

from __future__ import annotations

from contextlib import ExitStack

from iostrata.lab.machine import RunningMachine
from iostrata.lab.steps import Netem


def delay(step: Netem, machine: RunningMachine, down: ExitStack) -> None:
    if step.delay_ns:
        device = f"dev {step.link} root"
        machine.command(f"tc qdisc add {device} netem delay {step.delay_ns / 1000:g}us limit 10000")
        down.callback(machine.command, f"tc qdisc del {device}")
