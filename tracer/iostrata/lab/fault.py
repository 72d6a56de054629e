# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a declared Fault in; it happens on its machine while something else is done."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from iostrata.lab.machine import RunningMachine
from iostrata.lab.scenario import Fault


@contextmanager
def impending(fault: Fault, machine: RunningMachine, nested: bool) -> Iterator[Callable[[], None]]:
    """What is called in the block lets it happen; at the block's end it is over. LabError."""
    # Its control is another one: the block uses the machine, too.
    own = RunningMachine(machine.name, machine.directory, machine.process, machine.pace)
    happening: list[Future[None]] = []
    with ThreadPoolExecutor(1) as thread:
        yield lambda: happening.append(thread.submit(_happen, fault, own, nested))
    own.close()
    for each in happening:
        each.result()


def _happen(fault: Fault, machine: RunningMachine, nested: bool) -> None:
    time.sleep(fault.after_s)
    if fault.command:
        machine.command(fault.command)
    elif nested:
        # By its QEMU, and so its clock stands still meanwhile.
        machine.monitor.execute("stop")
        time.sleep(fault.halted_s)
        machine.monitor.execute("cont")
    elif machine.process.alive:
        os.kill(machine.process.pid, signal.SIGSTOP)
        time.sleep(fault.halted_s)
        os.kill(machine.process.pid, signal.SIGCONT)
