# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a disk that is plugged into a nested machine, whatever it is made of."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Final, Literal

from iostrata.lab import qemu
from iostrata.lab.monitor import Monitor
from iostrata.lab.problem import Problems
from iostrata.lab.schema import Amount, Count, Name, Place
from iostrata.lab.steps.plugged import Plugged
from iostrata.lab.steps.step import Ground, Site

# The page cache of the machine below, and whether the guest's disk has a write cache.
CACHES: Final = {
    "none": (True, True),
    "writeback": (False, True),
    "writethrough": (False, False),
    "directsync": (True, False),
}
# QEMU's controller, if the disk has one, and disk; and what the guest's kernel needs to see them.
BUSES: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "virtio-blk": ("", "virtio-blk-pci", ()),
    "virtio-scsi": ("virtio-scsi-pci", "scsi-hd", ("virtio_scsi", "sd_mod")),
    "nvme": ("", "nvme", ("nvme",)),
}


class Image(Plugged, tag="image", tag_field="kind", frozen=True, kw_only=True):
    """A disk of ``guest``, plugged in without a restart; its serial number is the step's name.

    It is one of: a new file in ``directory`` of the machine below; a ``device``, which is a disk
    there or what an earlier step provides; a ``transport``, which is how QEMU itself reaches it
    (a block node in its own words, as for ``blockdev-add``).
    ``backing``: the format of another new file under it, from which it copies what is written in
    part only. ``preallocation``: what of a qcow2 file is there from the start, as for qemu-img.
    ``iops``: QEMU lets no more than so many requests a second through; 0: any number.
    """

    directory: Place | None = None
    device: Name | None = None
    transport: dict[str, Any] | None = None
    size_mib: Count = 256
    format: Literal["raw", "qcow2"] = "raw"
    backing: Literal["raw", "qcow2"] | None = None
    preallocation: Literal["off", "metadata", "falloc", "full"] = "off"
    bus: Literal["virtio-blk", "virtio-scsi", "nvme"] = "virtio-blk"
    cache: Literal["none", "writeback", "writethrough", "directsync"] = "none"
    aio: Literal["threads", "native", "io_uring"] = "threads"
    iothread: bool = False
    iops: Amount = 0

    def packages(self, machine: str) -> tuple[str, ...]:
        return ("qemu-utils",) if machine == self.machine and self.format != "raw" else ()

    def modules(self, machine: str) -> tuple[str, ...]:
        return BUSES[self.bus][2] if machine == self.guest else ()

    def disks(self) -> tuple[tuple[str, str], ...]:
        return ((self.guest, self.name),)

    def check(self, ground: Ground) -> Problems:
        yield from super().check(ground)
        places = [self.directory, self.device, self.transport]
        if sum(place is not None for place in places) != 1:
            yield "directory", "an image is in one place", "give directory, device or transport"
        if self.directory:
            yield from ground.unless_mounted("directory", self.machine, self.directory)
        if self.device:
            yield from ground.unless_device("device", self.machine, self.device)
        if self.backing and (self.format == "raw" or not self.directory):
            yield "backing", "only a qcow2 file has one", 'give format = "qcow2" and a directory'
        if self.preallocation != "off" and (self.format == "raw" or not self.directory):
            yield "preallocation", "only a qcow2 file has one", 'give format = "qcow2"'
        if self.transport is not None and self.format != "raw":
            yield "format", "nobody makes an image there", "give a directory or device"
        if self.aio == "native" and not CACHES[self.cache][0]:
            yield "aio", "native is refused by a page cache", 'give cache = "none" or "directsync"'
        if self.iothread and self.bus == "nvme":
            yield "iothread", "QEMU's nvme has none", "give another bus"

    def build(self, site: Site, down: ExitStack) -> None:
        guest = site.machines[self.guest]
        monitor = guest.monitor
        direct, write_cache = CACHES[self.cache]
        monitor.execute(
            "blockdev-add",
            driver=self.format,
            node_name=self.name,
            cache={"direct": direct},
            file=self._file(site, direct, down),
        )
        down.callback(monitor.execute, "blockdev-del", node_name=self.name)
        node = self._throttled(monitor, down) if self.iops else self.name
        thread = self._thread(monitor, down) if self.iothread else {}
        controller, disk, _ = BUSES[self.bus]
        bus = qemu.slot(self.name)
        if controller:
            above = f"{self.name}-controller"
            monitor.plug(down, thread, id=above, driver=controller, bus=bus)
            bus, thread = f"{above}.0", {}
        monitor.plug(
            down,
            thread,
            id=self.name,
            driver=disk,
            bus=bus,
            drive=node,
            serial=self.name,
            write_cache="on" if write_cache else "off",
        )
        site.wait_for_device(self.guest, self.name)

    def _file(self, site: Site, direct: bool, down: ExitStack) -> dict[str, Any]:
        """The block node below the format's."""
        if self.transport is not None:
            return self.transport
        machine = site.machines[self.machine]
        if self.device:
            driver, path = "host_device", site.device(self.machine, self.device)
        else:
            driver, path = "file", f"{self.directory}/{self.name}.img"
        size, below = f"{self.size_mib}M", f"{path}.below"
        if self.backing:
            machine.command(f"qemu-img create -q -f {self.backing} {below} {size}")
            down.callback(machine.command, f"rm {below}")
        if self.format != "raw":
            over = f"-b {below} -F {self.backing}" if self.backing else ""
            if self.preallocation != "off":
                over += f" -o preallocation={self.preallocation}"
            machine.command(f"qemu-img create -q -f {self.format} {over} {path} {size}")
        elif self.directory:
            machine.command(f"truncate -s {size} {path}")
        if self.directory:
            down.callback(machine.command, f"rm {path}")
        return {"driver": driver, "filename": path, "aio": self.aio, "cache": {"direct": direct}}

    def _throttled(self, monitor: Monitor, down: ExitStack) -> str:
        """The name of a node that lets requests through one by one."""
        node, group = f"{self.name}-throttled", f"{self.name}-throttle"
        limits = {"iops-total": self.iops}
        monitor.add_object(down, qom_type="throttle-group", id=group, limits=limits)
        monitor.execute(
            "blockdev-add", driver="throttle", node_name=node, throttle_group=group, file=self.name
        )
        down.callback(monitor.execute, "blockdev-del", node_name=node)
        return node

    def _thread(self, monitor: Monitor, down: ExitStack) -> dict[str, str]:
        name = f"{self.name}-iothread"
        monitor.add_object(down, qom_type="iothread", id=name)
        return {"iothread": name}
