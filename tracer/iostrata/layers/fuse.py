# SPDX-License-Identifier: Apache-2.0
"""File systems in user space (FUSE): what their daemons do with a request."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import (
    Declaration,
    Depth,
    Observer,
    Programs,
    Rank,
    Row,
    Visibility,
)

FILE_SYSTEMS: Final = frozenset({"fuse", "fuseblk", "virtiofs"})

FUSE: Final = Declaration(
    rows=(
        Row(
            "fuse.queue",
            "upper OS",
            "file system's request sent until its daemon took it up",
            ("fuse_request", "fuse_take"),
            "the daemon is at other requests and has too few threads, or is stopped.",
            "#b388ff",
            "queue",
            cause="the file system's daemon",
            of_host=True,
            queued=True,
        ),
        Row(
            "fuse.daemon",
            "daemon",
            "with the file system's daemon, in none of its calls that are recorded",
            ("fuse_take", "fuse_request"),
            "the daemon computes (it encrypts, compresses, copies), or makes calls that are not "
            "recorded: it opens, looks up, reads. All is here that a thread does that has several "
            "requests at once, as nothing tells for which of them.",
            "#7c4dff",
            "host",
            of_host=True,
        ),
        Row(
            "fuse.wait",
            "daemon",
            "daemon asleep outside such calls, for what it chose to wait for",
            ("fuse_take", "sched_resume", "fuse_request"),
            "the daemon waits for its network (sshfs), for another thread or process of its own, "
            "or for a time.",
            "#d500f9",
            "host",
        ),
        Row(
            "fuse.call",
            "daemon",
            "request sent until the answer: the file system's daemon, and all below it",
            ("fuse_request",),
            "the daemon, whose threads were not seen to take requests up: mount the file system "
            "before recording; of virtiofs, record the host as well.",
            "#6200ea",
            "host",
        ),
    ),
    ranks=(
        Rank("fuse.queue", "fuse.queue", Depth.WAY),
        Rank("fuse.daemon", "fuse.daemon", Depth.FLOOR),
        Rank("fuse.wait", "fuse.wait", Depth.LOCK),
        Rank("fuse.call", "fuse.call", Depth.AWAY, wakes=True, asks=True),
    ),
    programs=(Programs("fuse", FILE_SYSTEMS),),
    visibility=(
        Visibility(
            "fuse",
            ("fuse",),
            "the time of a file system whose daemon is in user space is unattributed",
            absent="this kernel has no points of FUSE (they are there since Linux 6.12), or FUSE "
            "is not loaded: mount before recording",
        ),
    ),
    observers=(
        Observer(
            "fuse.queue and fuse.daemon",
            ("fuse_take",),
            "no daemon of this machine was seen to take up what it answered",
            "fuse.call",
            given=("fuse_request",),
            held=True,
        ),
    ),
)
