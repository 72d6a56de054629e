# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a trace in, which of its disks another machine serves, by a network, out.

No hop leads to what is behind them: without a word, their device would be taken for one here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

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


# Points of drivers that say when a request was sent and answered: rows of its own have its time.
TELLING: Final = ("nbd_header_received", "nvme_complete_rq", "iscsi_answered")


def network_disks(trace: Trace) -> Iterator[str]:
    """A line for each of those that were asked for anything, and whose rows do not say so."""
    # Most machines have no such disk, and then no request need be looked at.
    blocks = trace.facts.blocks
    disks = {key: found for key, block in blocks.items() if (found := _network_of(block))}
    asked = trace.points["block_rq_issue"].values("dev") if disks else ()
    told = {key for point in TELLING for key in trace.points[point].values("dev")}
    for key, (kind, server) in disks.items():
        if key in asked and key not in told:
            beyond = f"what the network and {server} take is in device"
            yield f"{blocks[key].name} is a network disk ({kind}): {beyond}"


def _network_of(block: BlockDevice) -> tuple[str, str] | None:
    """By which network the disk is reached, and who serves it."""
    if match := NAMED_DISK.match(block.name):
        return DRIVERS[match[1] or match[2]]
    nvme = block.name.startswith("nvme")
    kind = (FABRICS if nvme else SCSI).get(block.transport)
    return (f"NVMe over {kind}" if nvme else kind, "its target") if kind else None
