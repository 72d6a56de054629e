# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a declared Fault in; it happens on its machine while something else is done."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from iostrata.errors import IostrataError
from iostrata.lab.machine import RunningMachine
from iostrata.lab.scenario import Fault


class Strike:
    """What is called once the workload is under way, and lets the fault happen.

    ``since_ns``, ``until_ns``: when it did, by the clock (CLOCK_MONOTONIC) of the machine that
    writes; 0: it did not.
    """

    def __init__(self, happen: Callable[[Strike], None], thread: ThreadPoolExecutor) -> None:
        self.since_ns = self.until_ns = 0
        self.happening: list[Future[None]] = []
        self._happen, self._thread = happen, thread

    def __call__(self) -> None:
        self.happening.append(self._thread.submit(self._happen, self))


@contextmanager
def impending(
    fault: Fault, machine: RunningMachine, writer: RunningMachine, nested: bool
) -> Iterator[Strike]:
    """What is called in the block lets it happen; at the block's end it is over. LabError."""
    # Their controls are others: the block uses the machines, too.
    struck, writes = _another(machine), _another(writer)

    def happen(strike: Strike) -> None:
        time.sleep(fault.after_s)
        strike.since_ns = _clock_ns(writes)
        _happen(fault, struck, nested)
        strike.until_ns = _clock_ns(writes)

    with ThreadPoolExecutor(1) as thread:
        strike = Strike(happen, thread)
        try:
            yield strike
        except (IostrataError, OSError) as error:
            # That may have come of it.
            for each in strike.happening:
                if own := each.exception():
                    raise own from error
            raise
    struck.close()
    writes.close()
    for each in strike.happening:
        each.result()


def _another(machine: RunningMachine) -> RunningMachine:
    return RunningMachine(machine.name, machine.directory, machine.process, machine.pace)


def _clock_ns(machine: RunningMachine) -> int:
    """To 10 ms. It counts what a machine was suspended for, which those of a lab never are."""
    return int(float(machine.command("cat /proc/uptime").split()[0]) * 1e9)


def _happen(fault: Fault, machine: RunningMachine, nested: bool) -> None:
    for asked in fault.monitor:
        time.sleep(asked.after_s)
        machine.monitor.execute(
            asked.execute, asked.arguments, until=asked.until, within_s=asked.within_s
        )
    if fault.command:
        machine.command(fault.command)
    if not fault.halted_s:
        return
    if nested:
        # By its QEMU, and so its clock stands still meanwhile.
        machine.monitor.execute("stop")
        time.sleep(fault.halted_s)
        machine.monitor.execute("cont")
    elif machine.process.alive:
        os.kill(machine.process.pid, signal.SIGSTOP)
        time.sleep(fault.halted_s)
        os.kill(machine.process.pid, signal.SIGCONT)
