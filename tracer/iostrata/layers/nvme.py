# SPDX-License-Identifier: Apache-2.0
"""NVMe over TCP: an initiator's disks, and a target in the kernel."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Observer, Programs, Stage, Visibility

HOP: Final = "nvme-tcp"
UNTRACED: Final = "functions cannot be traced (fentry), or have other names"

NVME: Final = Declaration(
    stages=(
        Stage("initiator.submit", ("nvme_tcp_send",)),
        Stage("initiator.call", ("nvme_complete_rq",)),
        Stage("initiator.complete"),
    ),
    programs=(Programs("nvme", hops=frozenset({HOP})), Programs("nvmet", serves=HOP)),
    visibility=(
        Visibility(
            "nvme",
            ("nvme",),
            "the time of a disk by NVMe over TCP cannot be told from its target's",
            absent="NVMe is not loaded with BTF: connect before recording, what comes later is not "
            "seen",
        ),
        Visibility(
            "nvmet",
            ("nvmet",),
            "what this machine does for others as a target of NVMe over TCP is not seen",
            absent="no target of NVMe is loaded with BTF: this machine is none",
        ),
    ),
    observers=(
        Observer(
            "when commands of NVMe are sent",
            ("nvme_tcp_send",),
            UNTRACED,
            "network.there",
            given=("nvme_complete_rq",),
        ),
        Observer(
            "what commands are carried out by",
            ("nvmet_work",),
            UNTRACED,
            "target",
            given=("nvmet_req_complete",),
        ),
    ),
)
