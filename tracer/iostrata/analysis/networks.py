# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a trace in, which of its disks another machine serves, by a network, and which
of its network cards a hypervisor does, out.

No hop leads to what is behind them: without a word, their device would be taken for one here, and
what is taken on the way for the network's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from iostrata.model import NotObserved
from iostrata.trace import BlockDevice, Trace

# Drivers that give their disks names of their own, and who is behind them.
DRIVERS: Final = {
    "nbd": ("nbd", "its server"),
    "rbd": ("RBD", "Ceph"),
    "drbd": ("DRBD", "the other machine"),
    "etherd": ("AoE", "its target"),
}
NAMED_DISK: Final = re.compile("(nbd|rbd|drbd)[0-9]+|(etherd)!e[0-9.]+")
# What a disk of SCSI or NVMe is reached by; the latter's are sysfs's own words.
SCSI: Final = {"iscsi": "iSCSI", "fc": "Fibre Channel"}
FABRICS: Final = {"tcp": "TCP", "rdma": "RDMA", "fc": "Fibre Channel"}
# Cards that are a hypervisor's program, by their drivers.
VIRTUAL_CARDS: Final = {
    "virtio_net": "virtio",
    "vif": "Xen",
    "vmxnet3": "VMware",
    "hv_netvsc": "Hyper-V",
}

# Points of drivers that say when a request was sent and answered: rows of its own have its time.
TELLING: Final = ("nbd_header_received", "nvme_complete_rq", "iscsi_answered", "rbd_answered")
CALLING: Final = ("rpc_call", *TELLING)
PACKETS: Final = ("packet_sent", "packet_received")
# Of what tells a connection's ports, the server's.
PORT: Final = 0xFFFF


def network_disks(trace: Trace) -> Iterator[str]:
    """A line for each of those that were asked for anything, and whose rows do not say so."""
    # Most machines have no such disk, and then no request need be looked at.
    blocks = trace.facts.blocks
    disks = {key: found for key, block in blocks.items() if (found := network_of(block))}
    asked = trace.points["block_rq_issue"].values("dev") if disks else ()
    told = {key for point in TELLING for key in trace.points[point].values("dev")}
    for key, (kind, server) in disks.items():
        if key in asked and key not in told:
            beyond = f"what the network and {server} take is in device"
            yield f"{blocks[key].name} is a network disk ({kind}): {beyond}"


def asks_a_network(trace: Trace) -> bool:
    """Whether the machine was seen to ask others for what is made durable."""
    return any(len(trace.points[point]) for point in CALLING)


def virtual_cards(trace: Trace) -> Iterator[str]:
    """A line for each: no point tells which packets went by it, nor what that took."""
    for interface, driver in trace.facts.cards.items():
        if kind := VIRTUAL_CARDS.get(driver):
            beyond = "what a hypervisor takes of what goes by it is in the network's part"
            yield f"{interface} is a {kind} network card: {beyond}"


def packets_in_vain(
    trace: Trace, errors: Mapping[bytes, int], *, split: bool
) -> Iterator[NotObserved]:
    """Ports whose packets were asked for, and had none: perhaps another one was meant; and packets
    that divide no way.

    ``errors``: by program, why it was not attached, which is told elsewhere. ``split``: whether
    any way to, from or through the machine has parts.
    """
    asked = [int(word) for word in str(trace.env.get("packets", "")).split() if word.isdecimal()]
    if not asked or any(errors.get(point.encode()) for point in PACKETS):
        return
    connections = {key for point in PACKETS for key in trace.points[point].values("connection")}
    used = {key & PORT for key in connections}
    for port in asked:
        if port not in used:
            yield NotObserved(f"packets of port {port}", "there was none", "")
    if used and not split:
        what = "only of NFS by TCP, and iSCSI to LIO, whose client and server are both recorded"
        yield NotObserved("parts of the network", what, "")


def network_of(block: BlockDevice) -> tuple[str, str] | None:
    """By which network the disk is reached, and who serves it."""
    if match := NAMED_DISK.match(block.name):
        return DRIVERS[match[1] or match[2]]
    nvme = block.name.startswith("nvme")
    kind = (FABRICS if nvme else SCSI).get(block.transport)
    return (f"NVMe over {kind}" if nvme else kind, "its target") if kind else None
