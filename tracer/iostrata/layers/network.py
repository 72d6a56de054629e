# SPDX-License-Identifier: Apache-2.0
"""The way of a call between two recorded machines, and back."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row, Visibility

NETWORK: Final = Declaration(
    rows=(
        Row(
            "network.there",
            "network",
            "call sent until the server had all of it",
            (
                "rpc_call",
                "svc_call",
                "nvme_tcp_send",
                "nvme_tcp_handed",
                "nvmet_req_init",
                "iscsi_sent",
                "iscsi_handed",
                "target_work",
                "rbd_sent",
                "rbd_message",
                "rbd_handed",
                "osd_send",
                "osd_message",
            ),
            "the way to the server: distance, a full queue or switch. Large writes take longer by "
            "their bytes.",
            "#7cb342",
            "net",
        ),
        Row(
            "network.r2t",
            "network",
            "command there until the target had all the data that it asked for",
            (
                "target_sequencer_start",
                "target_asked",
                "target_sent",
                "iscsi_asked",
                "iscsi_handed",
                "target_work",
                "nvmet_req_init",
                "nvmet_asked",
                "nvme_tcp_asked",
                "nvme_tcp_handed",
                "nvmet_data",
            ),
            "writes are larger than what goes with a command (iSCSI's ImmediateData and "
            "FirstBurstLength, an NVMe target's inline_data_size), or than the target asks for at "
            "once (MaxBurstLength): each time takes a round trip.",
            "#a5d267",
            "net",
        ),
        Row(
            "initiator.send",
            "upper OS",
            "sent, or asked for more data, until the connection had all",
            (
                "iscsi_sent",
                "iscsi_asked",
                "iscsi_handed",
                "rbd_message",
                "rbd_handed",
                "nvme_tcp_send",
                "nvme_tcp_asked",
                "nvme_tcp_handed",
            ),
            "the initiator's worker that sends has no CPU, or the connection takes no more.",
            "#76a83b",
            "queue",
        ),
        Row(
            "network.back",
            "network",
            "reply sent until the client had it",
            (
                "rpc_call",
                "svc_call",
                "nvmet_req_complete",
                "nvmet_answer",
                "nvme_complete_rq",
                "target_sent",
                "iscsi_answered",
                "osd_reply",
                "osd_send",
                "osd_message",
                "rbd_answered",
            ),
            "the way back. A delay in the server's own send queue is here, too.",
            "#558b2f",
            "net",
        ),
    ),
    ranks=(
        Rank("network.there", "network.there", Depth.WAY),
        Rank("network.r2t", "network.r2t", Depth.WAY),
        Rank("initiator.send", "initiator.send", Depth.WAY),
        Rank("network.back", "network.back", Depth.WAY),
    ),
    visibility=(
        Visibility(
            "socket",
            ("socket",),
            "what waits in a socket for its receiver, which has no CPU, cannot be told from what "
            "is on its way",
            absent="the kernel receives no commands, calls or answers here (LIO, nvmet, NVMe over "
            "TCP, NFS, NBD, rbd)",
        ),
    ),
)
