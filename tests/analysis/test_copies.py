# SPDX-License-Identifier: Apache-2.0
"""copy_file_range on XFS, of which it is not known whether it made durable what it shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from iostrata.trace.layout import CALL_COPY_FILE_RANGE
from tests.synthetic import O_DSYNC, Request, World, Writer, device

DISK, ICLOG, LSN = device(253, 0), 0xFFFF_8888_1111_0000, 1 << 32
INSIDE, OUTSIDE = range(2)


@pytest.mark.parametrize(
    ("waits", "flags", "told"),
    [
        ([INSIDE, OUTSIDE, INSIDE], 0, "2 calls"),
        ([OUTSIDE, INSIDE], 0, "one call"),
        ([OUTSIDE, OUTSIDE], 0, ""),
        ([INSIDE, INSIDE], O_DSYNC, ""),
    ],
)
def test_a_copy_that_waited_for_the_log(
    tmp_path: Path, waits: list[int], flags: int, told: str
) -> None:
    """Of a synchronous file there is no doubt: it is one by itself."""
    world = World()
    world.builder.block(DISK, "vda")
    writer = Writer(world, 100, DISK, 1_000_000)
    writer.enter()
    writer.data(Request())
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    for wait in waits:
        enter = writer.now + 10_000
        writer.now = enter + 50_000
        world.emit("xlog_iclog_wait_on", enter + (9_000 if wait == INSIDE else -2_000), writer.tid,
                   iclog_key=ICLOG, lsn=LSN, dev=DISK)  # fmt: skip
        world.emit("syscall", writer.now, writer.tid, enter_ns=enter, inode=14, dev=DISK,
                   offset_bytes=0, size_bytes=4096, result=4096, tgid=writer.tid,
                   open_flags=flags, call=CALL_COPY_FILE_RANGE)  # fmt: skip
    world.builder.write(tmp_path)
    found = analyse(open_recording(tmp_path)).quality
    gaps = [gap.reason for gap in found.not_observed if gap.where == "copy_file_range on XFS"]
    text = "waited for the log, so it may be durable: not taken for synchronous"
    assert gaps == ([f"{told} {text}"] if told else [])
    assert found.plain_writes == (0 if flags else len(waits))
