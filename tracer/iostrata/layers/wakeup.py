# SPDX-License-Identifier: Apache-2.0
"""Sleeping, being woken, and waiting for a CPU."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Observer, Rank, Row, Visibility

# Of who waits until a kernel worker takes up what it was handed.
BEHIND_WORKERS: Final = "wakeup.worker"

WAKEUP: Final = Declaration(
    rows=(
        Row(
            "wakeup.worker",
            "OS",
            "handed to a kernel worker until it began, or let the caller go",
            (
                "io_uring_queue_async_work",
                "io_uring_unlinked",
                "io_uring_work",
                "sched_resume",
                "sched_woken",
            ),
            "the engine hands requests to kernel threads, as buffered writes and syncs are, or the "
            "file system ends appends in them (ext4, XFS); there are too few of them.",
            "#aed581",
            "wake",
            contended=True,
        ),
        Row(
            "wakeup.reap",
            "OS",
            "complete until the caller collected it (io_uring, libaio)",
            ("io_uring_complete", "io_uring_cqe_overflow", "aio_complete", "syscall"),
            "the program does not collect what is complete: it is busy, sleeps for something else, "
            "or waits for several at once.",
            "#8bc34a",
            "wake",
        ),
        Row(
            "wakeup.interrupt",
            "OS",
            "from completion to the wake-up of who waits",
            ("block_rq_complete", "loop_work", "sched_resume"),
            "the completion is handled late: interrupts on another CPU, softirqs behind network "
            "traffic, power saving.",
            "#c0ca33",
            "wake",
        ),
        Row(
            "wakeup.runqueue",
            "OS",
            "it, or who serves it, could run, but another task has the CPU",
            ("sched_resume",),
            "other tasks have the CPU: too much load, a low priority (of a disk's interrupt, too, "
            "where that has a thread), or a CPU that must wake from deep sleep.",
            "#43a047",
            "wake",
            cause="waiting for a CPU",
            contended=True,
        ),
    ),
    ranks=(
        # Asleep for no reason that was observed: this is what "unattributed" means.
        Rank("blocked", None, Depth.ASLEEP),
        Rank("wakeup.worker", "wakeup.worker", Depth.HANDED),
        Rank("handed.wakeup.runqueue", "wakeup.runqueue", Depth.HANDED),
        Rank("wakeup.reap", "wakeup.reap", Depth.WAKING),
        Rank("wakeup.runqueue", "wakeup.runqueue", Depth.WAKING),
        Rank("wakeup.interrupt", "wakeup.interrupt", Depth.WAKING),
        Rank("lower.wakeup.worker", "wakeup.worker", Depth.BELOW),
        Rank("lower.handed.wakeup.runqueue", "wakeup.runqueue", Depth.BELOW),
        Rank("lower.wakeup.runqueue", "wakeup.runqueue", Depth.BELOW),
        Rank("lower.wakeup.interrupt", "wakeup.interrupt", Depth.BELOW),
        Rank("served.wakeup.runqueue", "wakeup.runqueue", Depth.SERVED),
        # Nothing tells whether it waits for its device or for that thread.
        Rank("done.blocked", None, Depth.DONE),
        Rank("done.wakeup.runqueue", "wakeup.runqueue", Depth.DONE),
    ),
    visibility=(
        Visibility("wakeup", ("wakeup",), "what ended a sleep is not known: unattributed"),
    ),
    observers=(
        Observer("wakeup", ("sched_resume",), "no scheduler event recorded", "syscall and fs"),
    ),
)
