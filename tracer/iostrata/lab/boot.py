# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a machine's declaration in, the machine booting out, here or within another."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from iostrata.errors import LabError
from iostrata.lab import qemu
from iostrata.lab.initramfs import NESTED_MODULES, initramfs
from iostrata.lab.links import Plug
from iostrata.lab.machine import ENDED, EXCHANGE, PID, QEMU_LOG, RunningMachine
from iostrata.lab.pace import Pace
from iostrata.lab.port import make_port
from iostrata.lab.process import process
from iostrata.lab.root import root_image
from iostrata.lab.software import Software
from iostrata.lab.tools import find_tool
from iostrata.lab.topology import Machine

BOOT_LIMIT_S: Final = 180.0
# How often a machine within another is booted at most.
BOOTS: Final = 3
# What boots it.
START: Final = "start"


def boot(
    machine: Machine,
    software: Software,
    directory: Path,
    plugs: Sequence[Plug],
    nested: Mapping[Machine, Software],
    pace: Pace,
    teardown: ExitStack,
) -> RunningMachine:
    """Begins to bring it up in a new ``directory``; ``teardown`` ends it.

    ``nested``: the machines within it, for which it gets kernels, a root and directories.
    """
    (directory / qemu.EXCHANGE).mkdir(parents=True)
    (directory / qemu.INITRAMFS).write_bytes(initramfs(software.kernel, software.busybox))
    ports = dict(_ports(nested))
    for path in ports.values():
        (directory / path).parent.mkdir(exist_ok=True)
        make_port(directory / path)
    for disk in machine.disks:
        with (directory / qemu.image(disk)).open("wb") as file:
            file.truncate(disk.size_mib << 20)
    handed_on = {qemu.kernel_disk(each): found.kernel.image for each, found in nested.items()}
    for within in list(nested.values())[:1]:  # they share it
        handed_on[qemu.ROOT] = directory / qemu.ROOT
        root_image(handed_on[qemu.ROOT], within.packages, within.unpacked)
    words = qemu.command_line(
        *(machine, software.kernel, plugs, ports, handed_on, software.unpacked, software.root)
    )
    with (directory / QEMU_LOG).open("wb") as log:
        started = subprocess.Popen(
            [find_tool(words[0]), *words[1:]],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[plug.descriptor for plug in plugs],
            # The terminal's Ctrl-C is for us: machines end in our order.
            start_new_session=True,
        )
    running = RunningMachine(machine.name, directory, process(started.pid), pace)
    teardown.callback(started.poll)
    teardown.callback(running.process.end)
    teardown.callback(running.close)
    return running


def _ports(nested: Iterable[Machine]) -> Iterator[tuple[str, str]]:
    """Name and path: the machine's own, and those that it hands on to machines within it."""
    for name in (qemu.CONTROL, qemu.RECORDER):
        yield name, name
    for machine in nested:
        for name in (qemu.CONTROL, qemu.RECORDER, qemu.MONITOR):
            yield f"{machine.name}.{name}", f"{qemu.EXCHANGE}/{machine.name}/{name}"


def boot_nested(
    machine: Machine,
    software: Software,
    host: RunningMachine,
    plugs: Sequence[Plug],
    slots: Sequence[str],
    shares: Mapping[str, str],
) -> RunningMachine:
    """Begins to bring it up within ``host``, with which it ends.

    Its directory is one of those that the two exchange. ``slots``: for what is plugged into it;
    ``shares``: directories of the host, for devices that serve them.
    """
    directory = host.exchange / machine.name
    (directory / qemu.EXCHANGE).mkdir()
    modules = (*NESTED_MODULES, *software.modules)
    (directory / qemu.INITRAMFS).write_bytes(initramfs(software.kernel, software.busybox, modules))
    words = shlex.join(qemu.nested_command_line(machine, plugs, slots, shares))
    started = f"{words} & echo $! >{PID}; wait $!; echo $? >{ENDED}"
    (directory / START).write_text(
        f"setsid sh -c {shlex.quote(started)} </dev/null >{QEMU_LOG} 2>&1 &\n"
    )
    host.command(
        "modprobe -q kvm_amd || modprobe kvm_intel || exit\n"
        # QEMU maps the file of a kernel, which a disk is not.
        f"cat {qemu.DISKS}/{qemu.kernel_disk(machine)} >/run/{qemu.kernel_disk(machine)}\n"
        f"cd {EXCHANGE}/{machine.name}\n"
        f". ./{START}"
    )
    return RunningMachine(machine.name, directory, host.process, host.pace)


def wait_for(machine: RunningMachine) -> None:
    """LabError, with the console's end, if it does not come up in time."""
    try:
        machine.command("true", BOOT_LIMIT_S)
    except LabError as error:
        raise LabError(
            f"the lab did not come up: {error}",
            f"--keep keeps the whole console, {machine.directory / qemu.CONSOLE}",
        ) from error


def wait_for_nested(
    machine: RunningMachine, host: RunningMachine, say: Callable[[str], None]
) -> None:
    """As ``wait_for``; it is booted again where its host's KVM gives it up.

    An emulated KVM does so now and then, on Linux from 6.14 on (7bd7ff99110a): with a guest's
    first write to a device's page, of which KVM knows nothing yet, behind an exception of the
    guest's own. QEMU leaves the type of that in the VMCB (exit_int_info), not marked as valid, and
    KVM takes it for an exception under way, which no device is to be written to for.
    """
    for _ in range(1, BOOTS):
        try:
            return wait_for(machine)
        except LabError:
            if not machine.given_up:
                raise
        say(f"machine {machine.name}: its host's KVM gave it up: booting it again")
        host.command(
            f"cd {EXCHANGE}/{machine.name}\n"
            f"kill -KILL $(cat {PID})\n"
            f"until [ -e {ENDED} ]; do sleep 0.1; done\n"
            f"rm {ENDED} {QEMU_LOG}\n"
            f". ./{START}"
        )
    return wait_for(machine)
