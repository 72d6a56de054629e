# SPDX-License-Identifier: Apache-2.0
"""Lab stage: virtual CPUs that may run for a part of the time only."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from iostrata.lab.machine import EXCHANGE, PID
from iostrata.lab.problem import Problems
from iostrata.lab.schema import Amount, Count, Name
from iostrata.lab.steps.step import Ground, Site, Step

CGROUP: Final = "/sys/fs/cgroup"


class CpuQuota(Step, tag="cpu_quota", tag_field="kind", frozen=True, kw_only=True):
    """The virtual CPUs of ``guest`` together run ``quota_ns`` in ``period_ns``; 0: no limit."""

    guest: Name
    quota_ns: Amount = 0
    period_ns: Count = 20_000_000

    def involved(self) -> tuple[str, ...]:
        return (self.machine, self.guest)

    def check(self, ground: Ground) -> Problems:
        yield from ground.unless_nested("guest", self.machine, self.guest)

    def build(self, site: Site, down: ExitStack) -> None:
        """By a cgroup of the threads that are the guest's virtual CPUs."""
        if not self.quota_ns:
            return
        machine, group = site.machines[self.machine], f"{CGROUP}/{self.name}"
        machine.command(
            f"""set -e
            echo +cpu >{CGROUP}/cgroup.subtree_control
            mkdir {group}
            echo threaded >{group}/cgroup.type
            echo {self.quota_ns // 1000} {self.period_ns // 1000} >{group}/cpu.max
            cd /proc/$(cat {EXCHANGE}/{self.guest}/{PID})/task
            for thread in $(grep -l '^CPU ' */comm); do
                echo ${{thread%/comm}} >{group}/cgroup.threads
            done"""
        )
        down.callback(
            machine.command,
            f"""set -e
            for thread in $(cat {group}/cgroup.threads); do
                echo $thread >{CGROUP}/cgroup.threads
            done
            rmdir {group}""",
        )
