# SPDX-License-Identifier: Apache-2.0
"""io_uring and libaio in one thread: neither disturbs what is recorded of the other."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from iostrata.trace.read import read_trace
from tests.root.conftest import IOSTRATA, loop_device
from tests.stitch.test_truth import accounts

PROGRAMS = Path(__file__).parent / "programs"
ROUNDS = 10
SIZES = {1 << 20: 50, 4096: 100}
COLLECTED = 50
SOME_NS = 5_000_000
"""More than one turn of who has the CPU takes."""


def compiled(name: str, directory: Path) -> Path:
    source, made = PROGRAMS / f"{name}.c", directory / name
    subprocess.run(["cc", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o", made, source], check=True)
    return made


def test_a_completion_of_io_uring_leaves_libaio_alone(
    recorder: Path, tmp_path: Path, disk: Path
) -> None:
    """What a worker completes while the thread waits for libaio's does not lead to others."""
    command = [compiled("two_interfaces", tmp_path), disk / "aio", disk / "uring"]
    subprocess.run([recorder, "-o", disk / "trace", "--", *command], check=True)
    points = read_trace(disk / "trace").points
    inode = (disk / "aio").stat().st_ino
    submitted, completed = points["aio_submit"], points["aio_complete"]
    assert submitted["inode"].tolist() == completed["inode"].tolist() == [inode] * ROUNDS
    assert submitted["iocb_key"].tolist() == completed["iocb_key"].tolist()
    inode = (disk / "uring").stat().st_ino
    assert points["io_uring_complete"]["inode"].tolist() == [inode] * ROUNDS


def test_a_control_block_that_is_used_again_while_its_request_is_under_way(
    tmp_path: Path, disk: Path
) -> None:
    """None is left out, and what they took together is what the program says."""
    command = [str(compiled("one_block", tmp_path)), str(disk / "aio")]
    output = str(disk / "recording")
    record = [*IOSTRATA, "record", "--quiet", "-o", output, "--", *command]
    told = subprocess.run(record, check=True, capture_output=True, text=True).stdout
    found = analyse(open_recording(Path(output)))
    assert not found.left_out
    sizes, counts = np.unique(found.writes.size_bytes, return_counts=True)
    assert dict(zip(sizes.tolist(), counts.tolist(), strict=True)) == SIZES
    assert int(found.writes.latency_ns.sum()) == pytest.approx(int(told), rel=0.05)


def test_who_has_no_cpu_to_collect_what_is_complete(tmp_path: Path, disk: Path) -> None:
    """Let go of a poll, which is no call that is looked at, it waits for who has its CPU."""
    # What makes room in a file is complete as io_submit returns.
    (disk / "aio").write_bytes(bytes(COLLECTED * 8192))
    subprocess.run(["sync", disk / "aio"], check=True)
    command = [str(compiled("collected", tmp_path)), str(disk / "aio"), str(COLLECTED)]
    output = str(disk / "recording")
    record = [*IOSTRATA, "record", "--quiet", "-o", output, "--", *command]
    waited_ns = int(subprocess.run(record, check=True, capture_output=True, text=True).stdout)
    found = analyse(open_recording(Path(output)))
    assert len(found.writes) == COLLECTED
    rows = {layer.row: int(ns.sum()) for layer, ns in zip(found.layers, found.time_ns, strict=True)}
    # The busy one has the CPU at a better priority. It keeps workers waiting as well, at times them
    # mostly: then this one waits for less.
    assert waited_ns > SOME_NS
    assert rows["wakeup.runqueue"] >= 0.95 * waited_ns, rows
    assert rows["wakeup.reap"] < 0.1 * waited_ns, rows


def test_a_worker_that_synchronises_a_disk_itself(tmp_path: Path, disk: Path) -> None:
    """It writes what is in the page cache, and has the disk make that durable."""
    with ExitStack() as teardown:
        loop = loop_device(disk / "image", 64 << 20, teardown)
        output = str(disk / "recording")
        command = [str(compiled("by_worker", tmp_path)), loop, str(ROUNDS)]
        subprocess.run([*IOSTRATA, "record", "--quiet", "-o", output, "--", *command], check=True)
    told = read_trace(disk / "recording" / "local").points["blkdev_fsync"]
    assert len(told) == 2 * ROUNDS
    assert set(told["datasync"].tolist()) == {1}
    found = analyse(open_recording(Path(output)))
    assert found.writes.names["method"] == ("libaio:fdatasync",)
    (every,) = accounts(found).values()
    assert len(every) == ROUNDS
    for held in every:
        assert {"fs", "block.stacked", "device.data", "device.flush"} <= set(held)


@pytest.mark.parametrize(("blocks", "lost"), [(256, 0), (260, 4)])
def test_the_blocks_of_one_call(
    recorder: Path, tmp_path: Path, disk: Path, blocks: int, lost: int
) -> None:
    """As far as they are looked at; the others are counted."""
    command = [str(compiled("one_call", tmp_path)), str(disk / "written"), str(blocks)]
    subprocess.run([recorder, "-o", disk / "trace", "--", *command], check=True)
    trace = read_trace(disk / "trace")
    for point in ("aio_submit", "aio_complete"):
        assert len(trace.points[point]) == blocks - lost
        assert trace.lost_by_point.get(point, 0) == lost
    offsets = np.sort(trace.points["aio_submit"]["offset_bytes"])
    assert offsets.tolist() == [512 * block for block in range(blocks - lost)]
