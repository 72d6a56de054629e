# SPDX-License-Identifier: Apache-2.0
"""The server's side of remote calls: the RPC service and the NFS server."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Programs, Rank, Row, Visibility

SVC: Final = Declaration(
    rows=(
        Row(
            "svc.queue",
            "OS",
            "call received until a server thread took it up",
            ("svc_call",),
            "the server has too few threads (`/proc/fs/nfsd/threads`), or they are all in slow "
            "writes.",
            "#b0bec5",
            "net",
        ),
        Row(
            "svc",
            "OS",
            "in the RPC service and the NFS server, outside the file system",
            ("svc_call",),
            "the server decodes, checks rights, looks up files, encodes: its CPU is busy.",
            "#78909c",
            "net",
        ),
    ),
    ranks=(
        Rank("svc.queue", "svc.queue", Depth.WAY),
        Rank("svc", "svc", Depth.FLOOR),
    ),
    programs=(Programs("svc", frozenset({"nfsd"})),),
    visibility=(
        Visibility(
            "svc",
            ("svc",),
            "what this machine's NFS server does is not seen",
            absent="RPC is not loaded with BTF: start the NFS server before recording",
            role="server",
        ),
    ),
)
