# SPDX-License-Identifier: Apache-2.0
"""Names of files: told in parts, true from then on, and not made up where a part is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from iostrata.trace import FileNames, file_names, read_trace
from tests.builder import TraceBuilder

VDA1, VDB, DEVTMPFS = 254 << 20 | 1, 254 << 20 | 16, 5


def tell(
    builder: TraceBuilder, time_ns: int, path: str, inode: int = 7, dev: int = VDA1, tid: int = 9,
    root_dev: int = 0, room: int = 27,
) -> int:  # fmt: skip
    """As the recorder does: the last component first, in parts of so many bytes."""
    parts: list[tuple[int, bytes, int]] = []
    components = [part.encode() for part in reversed(path.strip("/").split("/"))]
    for number, name in enumerate(components):
        cuts = range(0, max(len(name), 1), room)
        parts += [(number, name[at : at + room], 0) for at in cuts]
    parts.append((len(components), b"", 1))
    for part, (component, text, last) in enumerate(parts):
        builder.add(
            "file_name", time_ns=time_ns + part, tid=tid, inode=inode, dev=dev,
            root_dev=root_dev or dev, part=part, component=component, last=last, text=text,
        )  # fmt: skip
    return time_ns + len(parts)


def told(builder: TraceBuilder, directory: Path) -> FileNames:
    trace = read_trace(builder.mount(VDA1, "/", "ext4").write(directory))
    return file_names(trace.points["file_name"], trace.facts)


def path_at(names: FileNames, time_ns: int, inode: int = 7, dev: int = VDA1) -> str | None:
    (row,) = names.rows(np.array([dev]), np.array([inode]), np.array([time_ns])).tolist()
    return names.paths[row] if row >= 0 else None


def test_a_long_name_is_put_together(tmp_path: Path) -> None:
    path = f"/srv/{'ä' * 100}/{'x' * 27}/{'y' * 28}"
    builder = TraceBuilder()
    tell(builder, 10, path)
    assert told(builder, tmp_path).paths == (path,)


def test_a_name_is_the_one_of_its_time(tmp_path: Path) -> None:
    """A log's file is renamed, and a deleted file's inode is another's."""
    builder = TraceBuilder()
    tell(builder, 100, "/db/wal/0001")
    tell(builder, 200, "/db/wal/0002")
    tell(builder, 300, "/tmp/other")
    tell(builder, 100, "/db/base/1", inode=8, tid=10)
    names = told(builder, tmp_path)
    assert [path_at(names, time) for time in (99, 100, 199, 200, 299, 300)] == [
        None, "/db/wal/0001", "/db/wal/0001", "/db/wal/0002", "/db/wal/0002", "/tmp/other",
    ]  # fmt: skip
    assert path_at(names, 1000, inode=8) == "/db/base/1"
    assert path_at(names, 1000, inode=9) is None
    assert path_at(names, 1000, dev=VDB) is None


def test_threads_tell_side_by_side(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for number in range(4):
        tell(builder, 100 + number % 2, f"/one/{number}/two", inode=20 + number, tid=50 + number)
    names = told(builder, tmp_path)
    assert [path_at(names, 200, inode=20 + number) for number in range(4)] == [
        f"/one/{number}/two" for number in range(4)
    ]


def test_what_was_not_told_to_its_end_is_no_name(tmp_path: Path) -> None:
    for missing in range(4):
        whole, builder = TraceBuilder(), TraceBuilder()
        tell(whole, 100, "/srv/db/wal")
        for number, row in enumerate(whole._rows["file_name"]):
            if number != missing:
                builder.add("file_name", **row)
        tell(builder, 200, "/srv/db/base", inode=8)
        assert told(builder, tmp_path / str(missing)).paths == ("/srv/db/base",)


def test_where_a_file_system_is_mounted(tmp_path: Path) -> None:
    builder = TraceBuilder().block(VDB, "vdb").block(254 << 20 | 32, "vdc")
    builder.mount(VDB, "/mnt/part of it", "ext4", root="/pgdata")
    builder.mount(DEVTMPFS, "/dev", "devtmpfs")
    tell(builder, 100, "/pgdata/wal", inode=1, dev=VDB)
    tell(builder, 200, "/pgdata2/wal", inode=2, dev=VDB)
    tell(builder, 300, "/wal", inode=3, dev=254 << 20 | 32)
    tell(builder, 400, "/vdb", inode=4, dev=VDB, root_dev=DEVTMPFS)
    names = told(builder, tmp_path)
    assert names.paths == ("/mnt/part of it/wal", "vdb:/pgdata2/wal", "vdc:/wal", "/dev/vdb")


def test_an_older_recording_has_none() -> None:
    trace = read_trace(Path(__file__).parents[1] / "recordings" / "ext4_journal" / "local")
    assert file_names(trace.points["file_name"], trace.facts).paths == ()
