# SPDX-License-Identifier: Apache-2.0
"""The system call itself, by whatever engine it is made."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row, Visibility

SYSCALL: Final = Declaration(
    rows=(
        Row(
            "syscall",
            "OS",
            "on the CPU in the system call: entry, copy, return",
            ("syscall", "io_uring_submit_req", "aio_submit"),
            "the CPU: copying large buffers, page faults, audit, a slow or throttled processor.",
            "#8d99a6",
            "cpu",
        ),
    ),
    ranks=(Rank("syscall", "syscall", Depth.FLOOR),),
    visibility=(
        Visibility("syscall", ("syscall",), "no write can be seen at all", needed=True),
        Visibility("32-bit", ("compat",), "their system calls are not seen", calls=True),
        Visibility("aio", ("aio",), "libaio writes are not analysed", calls=True),
        Visibility("io_uring", ("uring",), "io_uring writes are not analysed", calls=True),
    ),
)
