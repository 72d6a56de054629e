# SPDX-License-Identifier: Apache-2.0
"""Writes on a server's file system of which no call is known: not followed, if they waited."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from tests.network import DISK, MOUNT, Call, Machine, recorded
from tests.synthetic import O_DSYNC

WRITES = 20


@pytest.mark.parametrize(
    ("dev", "slept", "file_system", "followed"),
    [
        (MOUNT, True, "nfs4", False),
        (MOUNT, True, "nfs", False),
        (MOUNT, False, "nfs4", True),
        (DISK, True, "nfs4", True),
        (MOUNT, True, "ext4", True),
    ],
    ids=["slept", "v3", "nothing to write", "its own disk", "its own file system"],
)
def test_who_waited_and_asked_nothing_that_is_known_is_not_followed(
    *, dev: int, slept: bool, file_system: str, followed: bool, tmp_path: Path
) -> None:
    server, client = Machine("server"), Machine("client")
    client.world.builder.mount(MOUNT, "/mnt", file_system, "nas:/", "rw")
    now = 1_000_000
    for _ in range(WRITES):
        now = client.write(400, now, [Call(server, [])]) + 50_000
    if slept:
        client.world.emit("sched_resume", now + 80_000, 400, off_ns=now + 5_000, waker_tid=7,
                          wake_ns=now + 70_000, state=2, subject_tid=400)  # fmt: skip
    client.world.emit("syscall", now + 90_000, 400, enter_ns=now, inode=12, offset_bytes=0, dev=dev,
                      size_bytes=8192, result=8192, tgid=400, open_flags=O_DSYNC,
                      call=2)  # fmt: skip
    found = analyse(open_recording(recorded(tmp_path / "both", client, server)))
    assert len(found.writes) == WRITES + 1
    assert found.quality.unfollowed == (0 if followed else 1)
