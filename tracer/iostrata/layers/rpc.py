# SPDX-License-Identifier: Apache-2.0
"""The NFS client's remote calls."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Programs, Rank, Row, Visibility

NFS: Final = frozenset({"nfs", "nfs4"})

RPC: Final = Declaration(
    rows=(
        Row(
            "rpc.queue",
            "OS",
            "NFS client's call until it was sent: slots, credentials, encoding",
            ("nfs_call", "rpc_call"),
            "the client has more calls than slots, waits for credentials, or its connection is "
            "congested.",
            "#80cbc4",
            "queue",
            queued=True,
        ),
        Row(
            "rpc.reconnect",
            "OS",
            "no connection to the server: from its end until there was one again",
            ("rpc_transport", "nfs_call", "rpc_call"),
            "the server was restarted or not reached, or its connection was closed when idle. "
            "Between attempts the client waits 3 s, then twice as long each time.",
            "#d84315",
            "net",
        ),
        Row(
            "rpc.recovery",
            "OS",
            "waits until what the server has forgotten of its client is set up again",
            ("rpc_wait", "nfs_call", "rpc_call"),
            "the server was restarted, or the client was silent for longer than its lease: the "
            "session is made anew, and open files are claimed back.",
            "#bf360c",
            "net",
        ),
        Row(
            "rpc.delay",
            "OS",
            "waits until it is time to try again",
            ("rpc_wait", "nfs_call", "rpc_call"),
            "the server asked to come again later (in its grace period after a restart, or while "
            "it recalls a delegation), or an attempt to reach it has failed.",
            "#ff7043",
            "net",
        ),
        Row(
            "rpc.reply",
            "OS",
            "reply there until the call had ended",
            ("rpc_call",),
            "the reply is there and the client's worker is late: its CPU is busy.",
            "#4db6ac",
            "queue",
        ),
        Row(
            "rpc.call",
            "beyond",
            "call sent until the reply: network and server",
            ("rpc_call",),
            "the network or the server; record the server as well to tell them apart.",
            "#00897b",
            "net",
        ),
    ),
    ranks=(
        Rank("rpc.queue", "rpc.queue", Depth.CALLING),
        Rank("rpc.reply", "rpc.reply", Depth.CALLING, wakes=True),
        Rank("lower.rpc.queue", "rpc.queue", Depth.UNDER),
        Rank("lower.rpc.reply", "rpc.reply", Depth.UNDER, wakes=True),
        Rank("lower.lower.rpc.queue", "rpc.queue", Depth.BELOW),
        Rank("lower.lower.rpc.reply", "rpc.reply", Depth.BELOW, wakes=True),
        Rank("rpc.call", "rpc.call", Depth.AWAY, wakes=True, asks=True),
        # Whatever was sent before was in vain.
        Rank("rpc.recovery", "rpc.recovery", Depth.AWAY),
        Rank("rpc.delay", "rpc.delay", Depth.AWAY),
        # In the queue or on its way: what both wait for then is the connection.
        Rank("rpc.reconnect", "rpc.reconnect", Depth.AWAY),
    ),
    programs=(Programs("nfs", NFS), Programs("rpc", NFS)),
    visibility=(
        Visibility(
            "packets",
            ("packet",),
            "which part of the way between two machines took its time cannot be told (--packets)",
        ),
        Visibility(
            "nfs",
            ("nfs",),
            "an NFS client's calls are not seen: their time is shown as syscall",
            absent="no NFS client is loaded with BTF: mount before recording, "
            "what comes later is not seen",
        ),
        Visibility(
            "rpc",
            ("rpc",),
            "an NFS client's network and server cannot be told from its own work",
            absent="RPC is not loaded with BTF: this machine is neither client nor server of NFS",
        ),
    ),
)
