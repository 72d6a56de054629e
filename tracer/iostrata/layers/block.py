# SPDX-License-Identifier: Apache-2.0
"""The block layer, from bio to driver."""

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

BEFORE_REQUESTS: Final = ("block.Q2D", "block.Q2G")
"""What holds a bio's wait for a request: where it was not told who slept for one, and else."""

HELD_BACK: Final = "held.block.stacked"
"""The rank of what a stacked device held back until a program let it go."""

BLOCK: Final = Declaration(
    rows=(
        Row(
            "block.Q2G",
            "OS",
            "bio queued until it got a request",
            ("block_bio_queue", "block_getrq", "block_bio_asleep"),
            "a limit of the queue holds requests back (wbt, `io.cost`, `io.latency`), or all of "
            "them are in use (`nr_requests`): the disk is behind; or its queue is frozen, as a "
            "setting is changed. Without `--detail` only where who queued it slept until then.",
            "#ffcc80",
            "queue",
            contended=True,
        ),
        Row(
            "block.Q2I",
            "OS",
            "bio queued until in the scheduler (request not seen)",
            ("block_bio_queue", "block_rq_insert"),
            "as Q2G and G2I together.",
            "#ffb74d",
            "queue",
            contended=True,
        ),
        Row(
            "block.Q2D",
            "OS",
            "bio queued until issued to the driver",
            ("block_bio_queue", "block_rq_issue"),
            "as G2I and I2D together, and what of Q2G nobody slept for; `--detail` tells them "
            "apart.",
            "#fb8c00",
            "queue",
            contended=True,
        ),
        Row(
            "block.G2I",
            "OS",
            "request got until in the scheduler",
            ("block_getrq", "block_rq_insert"),
            "plugging: requests are collected before they are handed on; merging.",
            "#f57c00",
            "queue",
            contended=True,
        ),
        Row(
            "block.G2D",
            "OS",
            "request got until issued, past the scheduler",
            ("block_getrq", "block_rq_issue"),
            "no scheduler is there, and the driver does not take requests yet.",
            "#ef6c00",
            "queue",
            contended=True,
        ),
        Row(
            "block.I2D",
            "OS",
            "in the I/O scheduler until issued to the driver",
            ("block_rq_insert", "block_rq_issue"),
            "the scheduler holds requests back: throttling, other classes first, a full device.",
            "#e65100",
            "queue",
            queued=True,
            contended=True,
        ),
        Row(
            "block.stacked",
            "OS",
            "in a stacked device (loop, dm) above the lowest one",
            ("block_bio_queue", "block_bio_remap", "block_bio_complete"),
            "the work of device mapper, md or loop: a worker of its own, encryption, mirrors, a "
            "file under it; and what it reads or copies on its disks for itself, where nothing "
            "says for whom (for a snapshot that was made since the recording began).",
            "#a1887f",
            "queue",
            contended=True,
            untied=True,
        ),
    ),
    ranks=(
        # Requests that only time ties to the write claim no more than a sleep.
        Rank("timed.queue", "block.Q2D", Depth.BY_TIME),
        Rank("block.Q2I", "block.Q2I", Depth.QUEUED),
        Rank("block.Q2D", "block.Q2D", Depth.QUEUED),
        # Without --detail a part of Q2D: what its thread slept for.
        Rank("block.Q2G", "block.Q2G", Depth.QUEUED),
        Rank("block.G2I", "block.G2I", Depth.QUEUED),
        Rank("block.G2D", "block.G2D", Depth.QUEUED),
        Rank("block.I2D", "block.I2D", Depth.QUEUED),
        Rank("block.stacked", "block.stacked", Depth.QUEUED, wakes=True),
        # Until a program let those go that went on with it, as who resumes a suspended device.
        Rank(HELD_BACK, "block.stacked", Depth.QUEUED, wakes=True),
        # Asleep for no reason that was observed (wakeup): a loop device's worker, and one of a loop
        # device below that.
        Rank("lower.blocked", None, Depth.STACKED),
        Rank("lower.block.stacked", "block.stacked", Depth.UNDER, wakes=True),
        Rank("lower.lower.blocked", None, Depth.UNDER),
        Rank("lower.block.Q2I", "block.Q2I", Depth.BELOW),
        Rank("lower.block.Q2D", "block.Q2D", Depth.BELOW),
        Rank("lower.block.Q2G", "block.Q2G", Depth.BELOW),
        Rank("lower.block.G2I", "block.G2I", Depth.BELOW),
        Rank("lower.block.G2D", "block.G2D", Depth.BELOW),
        Rank("lower.block.I2D", "block.I2D", Depth.BELOW),
    ),
    visibility=(
        Visibility(
            "block", ("block",), "queue and device cannot be told from the rest", needed=True
        ),
        Visibility(
            "loop",
            ("loop",),
            "what a loop device's worker, or who ends its requests, waits for is block.stacked",
            absent="this kernel has no such points",
        ),
    ),
    programs=(Programs("loop", disk="loop"),),
    observers=(
        Observer(
            "block.Q2G",
            ("block_io_start", "block_getrq"),
            "no point that this kernel has",
            "block.Q2I or block.Q2D",
            detail=True,
        ),
        Observer(
            "block.I2D",
            ("block_rq_insert",),
            "no I/O scheduler, or passed by",
            "block.G2D",
            detail=True,
        ),
        Observer(
            "block.Q2G to I2D",
            ("block_io_start", "block_getrq", "block_bio_asleep", "block_rq_insert"),
            "only with --detail",
            "block.Q2D",
            detail=False,
        ),
        Observer(
            "block.G2I to I2D",
            ("block_io_start", "block_rq_insert"),
            "only with --detail",
            "block.Q2D",
            detail=False,
            given=("block_getrq", "block_bio_asleep"),
        ),
    ),
)
