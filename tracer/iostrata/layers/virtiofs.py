# SPDX-License-Identifier: Apache-2.0
"""A guest's virtio file system: the way of its requests to the daemon on the host."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Programs, Rank, Row, Visibility
from iostrata.trace.layout import THREAD_DAEMON

VIRTIOFS: Final = Declaration(
    rows=(
        Row(
            "virtiofs.there",
            "hypervisor",
            "guest's file system sent a request until a thread of virtiofsd took it up",
            ("fuse_request", "virtiofs_request"),
            "the guest's way out is slow, or the daemon late to hand it to a thread. While one "
            "that would take it up has no CPU, that is wakeup.runqueue or throttle.cpu.",
            "#aa00ff",
            "host",
        ),
        Row(
            "virtiofs.queue",
            "hypervisor",
            "request sent while the thread that took it up was still at another one",
            ("fuse_request", "virtiofs_request", "virtiofs_reply"),
            "the daemon has too few threads for so many requests at once (--thread-pool-size).",
            "#d500c8",
            "host",
            queued=True,
        ),
        Row(
            "virtiofs.back",
            "hypervisor",
            "virtiofsd's answer until the guest's file system had it",
            ("virtiofs_reply", "fuse_request"),
            "the virtual CPU is late to take its interrupt, or the guest's worker has no CPU.",
            "#ea80fc",
            "host",
        ),
    ),
    ranks=(
        Rank("virtiofs.there", "virtiofs.there", Depth.WAY),
        Rank("virtiofs.queue", "virtiofs.queue", Depth.WAY),
        Rank("virtiofs.back", "virtiofs.back", Depth.WAY),
    ),
    programs=(Programs("virtiofs", thread=THREAD_DAEMON),),
    visibility=(
        Visibility(
            "virtiofs",
            ("virtiofs",),
            "which requests of a guest's file system this machine's daemon serves is not seen",
            absent="no virtiofsd runs here",
        ),
    ),
)
