# SPDX-License-Identifier: Apache-2.0
"""What a server did for a call is tied to a write by no more than the call is."""

from __future__ import annotations

from pathlib import Path

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from iostrata.trace.layout import NFS_COMMIT
from tests.network import MOUNT, Call, Disk, Machine, Served, recorded
from tests.reading import O_DIRECT
from tests.stitch.test_committing import OLDER, UNSTABLE, without_keys
from tests.synthetic import O_DSYNC

WRITER, WORKER = 100, 31
KEY, PWRITE = 0x70, 1
BLOCK = {"iocb_key": KEY, "inode": 12, "dev": MOUNT, "open_flags": O_DSYNC | O_DIRECT,
         "opcode": PWRITE}  # fmt: skip


@OLDER
def test_requests_below_a_commit(tmp_path: Path, *, older: bool) -> None:
    """Older recordings do not tell for which request it is: its place in time does."""
    client, server = Machine("client"), Machine("server", role="server", xid=70)
    world = without_keys(client.world) if older else client.world
    world.target(WRITER)
    served = Served(WRITER)
    write = Call(server, [Disk()], stable=UNSTABLE, key=KEY)
    _, reply, _ = client._call(WRITER, 3_000, write, served)
    world.emit("aio_submit", 4_000, WRITER, enter_ns=1_000, offset_bytes=0, size_bytes=8192,
               **BLOCK)  # fmt: skip
    commit = Call(server, [Disk()], operation=NFS_COMMIT, key=KEY)
    _, reply, _ = client._call(WORKER, reply + write.reply + 300, commit, served)
    end = reply + commit.reply + 2_000
    world.emit("aio_complete", end, WRITER, enter_ns=end - 9_000, result=8192, **BLOCK)
    found = analyse(open_recording(recorded(tmp_path / "recording", client, server)))
    assert len(found.writes) == 1
    assert found.quality.ties == ({"key": 1, "time": 1} if older else {"key": 2})
