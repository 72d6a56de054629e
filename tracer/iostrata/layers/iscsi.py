# SPDX-License-Identifier: Apache-2.0
"""iSCSI: an initiator's disks, and the kernel's own target."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Programs, Stage, Visibility

HOP: Final = "iscsi"

ISCSI: Final = Declaration(
    stages=(
        Stage("initiator.submit", ("iscsi_sent",)),
        Stage("initiator.call", ("iscsi_answered",)),
        Stage("initiator.complete"),
    ),
    programs=(Programs("iscsi", hops=frozenset({HOP})), Programs("target", serves=HOP)),
    visibility=(
        Visibility(
            "iscsi",
            ("iscsi",),
            "the time of a disk by iSCSI cannot be told from its target's",
            absent="iSCSI is not loaded with BTF: log in before recording, what comes later is "
            "not seen",
        ),
        Visibility(
            "target",
            ("target",),
            "what this machine does for others as a target of iSCSI is not seen",
            absent="no target of iSCSI is loaded with BTF: this machine is none",
        ),
    ),
)
