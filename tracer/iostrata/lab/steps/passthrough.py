# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a disk's controller that its machine hands on to one within it (VFIO)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from iostrata.lab import qemu
from iostrata.lab.problem import Problems
from iostrata.lab.schema import Name
from iostrata.lab.steps.plugged import Plugged
from iostrata.lab.steps.step import Ground, Site

ADDRESS: Final = "basename $(readlink -f /sys/block/{disk}/device/device)"
DEVICE: Final = "/sys/bus/pci/devices/{address}"
HAND_ON: Final = f"""
    echo vfio-pci >{DEVICE}/driver_override
    echo {{address}} >{DEVICE}/driver/unbind
    echo {{address}} >/sys/bus/pci/drivers_probe
    [ -e /sys/bus/pci/drivers/vfio-pci/{{address}} ]"""
TAKE_BACK: Final = f"""
    echo >{DEVICE}/driver_override
    echo {{address}} >{DEVICE}/driver/unbind
    echo {{address}} >/sys/bus/pci/drivers_probe"""


class Passthrough(Plugged, tag="passthrough", tag_field="kind", frozen=True, kw_only=True):
    """``device``, an NVMe disk of ``machine``, is ``guest``'s own; it bears the step's name there.

    Its machine has an ``iommu``, and sees no request of it any more.
    """

    device: Name

    def modules(self, machine: str) -> tuple[str, ...]:
        return ("nvme",) if machine == self.guest else ("nvme", "vfio-pci")

    def disks(self) -> tuple[tuple[str, str], ...]:
        return ((self.guest, self.name),)

    def check(self, ground: Ground) -> Problems:
        yield from super().check(ground)
        yield from ground.unless_device("device", self.machine, self.device)
        if not ground.machines[self.machine].iommu:
            yield "machine", f"{self.machine} can hand no device on", "give it an iommu"

    def build(self, site: Site, down: ExitStack) -> None:
        machine, guest = site.machines[self.machine], site.machines[self.guest]
        disk = site.device(self.machine, self.device).rpartition("/")[2]
        address = machine.command(ADDRESS.format(disk=disk)).strip()
        down.callback(site.wait_for_device, self.machine, self.device)
        down.callback(machine.command, TAKE_BACK.format(address=address))
        machine.command(HAND_ON.format(address=address))
        bus = qemu.slot(self.name)
        guest.monitor.plug(down, {}, id=self.name, driver="vfio-pci", bus=bus, host=address)
        site.wait_for_device(self.guest, self.device)
        link = f"{qemu.DISKS}/{self.name}"
        guest.command(f"ln -s {site.device(self.guest, self.device)} {link}")
        down.callback(guest.command, f"rm {link}")
