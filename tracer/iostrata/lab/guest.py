# SPDX-License-Identifier: Apache-2.0
"""Lab stage: steps of a nested machine in, its disk plugged in, its virtual CPUs limited, out."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from typing import Any, Final

from iostrata.lab import qemu
from iostrata.lab.machine import EXCHANGE, PID, RunningMachine
from iostrata.lab.steps import CpuQuota, Image

# The page cache of the machine below, and whether the guest's disk has a write cache.
CACHES: Final = {
    "none": (True, True),
    "writeback": (False, True),
    "writethrough": (False, False),
    "directsync": (True, False),
}
CGROUP: Final = "/sys/fs/cgroup"


def plug_image(step: Image, host: RunningMachine, guest: RunningMachine, down: ExitStack) -> None:
    """A virtio disk whose serial number is the step's name, without a restart of the guest."""
    file = f"{step.directory}/{step.name}.img"
    host.command(f"truncate -s {step.size_mib}M {shlex.quote(file)}")
    down.callback(host.command, f"rm {shlex.quote(file)}")
    monitor = guest.monitor
    direct, write_cache = CACHES[step.cache]
    monitor.execute(
        "blockdev-add",
        driver="raw",
        node_name=step.name,
        cache={"direct": direct},
        file={"driver": "file", "filename": file, "aio": step.aio, "cache": {"direct": direct}},
    )
    down.callback(monitor.execute, "blockdev-del", node_name=step.name)
    node = _throttled(step, guest, down) if step.iops else step.name
    device: dict[str, Any] = {}
    if step.iothread:
        thread = f"{step.name}-iothread"
        monitor.execute("object-add", qom_type="iothread", id=thread)
        down.callback(monitor.execute, "object-del", id=thread)
        device["iothread"] = thread
    monitor.execute(
        "device_add",
        driver="virtio-blk-pci",
        id=step.name,
        bus=qemu.SLOT,
        drive=node,
        serial=step.name,
        write_cache="on" if write_cache else "off",
        **device,
    )
    down.callback(monitor.wait_deleted, step.name)
    down.callback(monitor.execute, "device_del", id=step.name)
    guest.command(f"until grep -qx {step.name} /sys/block/vd*/serial; do sleep 0.1; done")


def _throttled(step: Image, guest: RunningMachine, down: ExitStack) -> str:
    """The name of a node that lets requests through one by one."""
    node, group = f"{step.name}-throttled", f"{step.name}-throttle"
    guest.monitor.execute(
        "object-add", qom_type="throttle-group", id=group, limits={"iops-total": step.iops}
    )
    down.callback(guest.monitor.execute, "object-del", id=group)
    guest.monitor.execute(
        "blockdev-add", driver="throttle", node_name=node, throttle_group=group, file=step.name
    )
    down.callback(guest.monitor.execute, "blockdev-del", node_name=node)
    return node


def limit_cpus(step: CpuQuota, host: RunningMachine, down: ExitStack) -> None:
    """By a cgroup of the threads that are the guest's virtual CPUs."""
    if not step.quota_ns:
        return
    group = f"{CGROUP}/{step.name}"
    host.command(
        f"""set -e
        echo +cpu >{CGROUP}/cgroup.subtree_control
        mkdir {group}
        echo threaded >{group}/cgroup.type
        echo {step.quota_ns // 1000} {step.period_ns // 1000} >{group}/cpu.max
        cd /proc/$(cat {EXCHANGE}/{step.guest}/{PID})/task
        for thread in $(grep -l '^CPU ' */comm); do
            echo ${{thread%/comm}} >{group}/cgroup.threads
        done"""
    )
    down.callback(
        host.command,
        f"""set -e
        for thread in $(cat {group}/cgroup.threads); do
            echo $thread >{CGROUP}/cgroup.threads
        done
        rmdir {group}""",
    )
