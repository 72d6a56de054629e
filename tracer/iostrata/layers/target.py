# SPDX-License-Identifier: Apache-2.0
"""The far side of a disk that another machine serves: what a target in the kernel does itself.

Which points say so is each transport's own.
"""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row

TARGET: Final = Declaration(
    rows=(
        Row(
            "target.queue",
            "OS",
            "command there until the target began to carry it out, or asked for its data",
            (
                "nvmet_req_init",
                "nvmet_asked",
                "nvmet_work",
                "target_sequencer_start",
                "target_asked",
                "target_sent",
                "target_work",
                "sched_resume",
            ),
            "the target's worker is late: its CPU is busy, or other commands are before it.",
            "#b7c5cd",
            "net",
        ),
        Row(
            "target",
            "OS",
            "in the target, outside its file system, block layer and device",
            (
                "nvmet_work",
                "nvmet_req_complete",
                "nvmet_answer",
                "target_work",
                "target_cmd_complete",
                "target_sent",
            ),
            "the target's own work for a command: its CPU is busy. What waits for one once the "
            "disk is done (of LIO a kernel worker, then the thread that answers; of nvmet a "
            "worker) is here, too.",
            "#6d8899",
            "net",
        ),
    ),
    ranks=(
        Rank("target.queue", "target.queue", Depth.WAY),
        Rank("target", "target", Depth.FLOOR),
    ),
)
