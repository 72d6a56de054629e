# SPDX-License-Identifier: Apache-2.0
"""What the kernel has wait for a set time, as it was told to, on this kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from iostrata.model import Breakdown
from tests.root.conftest import loop_device
from tests.root.test_oracles import recorded
from tests.root.test_uring import row

LEAST_NS = 5_000_000
# Of several who sync in turn, each lets the others join (jbd2_journal_stop).
PROGRAM = """
import os, sys, threading
def cut(name):
    file = os.open(name, os.O_WRONLY | os.O_CREAT)
    for _ in range(30):
        os.write(file, bytes(8192))
        os.ftruncate(file, 0)
threads = [threading.Thread(target=cut, args=(f"{sys.argv[1]}/{number}",)) for number in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


# More than may be dirty there, each time.
MUCH = """
import os, sys
file = os.open(sys.argv[1] + "/file", os.O_WRONLY | os.O_CREAT)
for _ in range(20):
    for number in range(8):
        os.pwrite(file, bytes(1 << 20), number << 20)
    os.fsync(file)
"""
MOST_DIRTY = 4 << 20


@pytest.fixture
def mounted(request: pytest.FixtureRequest, disk: Path) -> Iterator[Path]:
    """A synchronous ext4 that waits for as many microseconds at least, 0: it does not."""
    least_us: int = request.param
    place = disk / "mounted"
    place.mkdir()
    options = f"sync,min_batch_time={least_us},max_batch_time={3 * least_us}"
    with ExitStack() as teardown:
        loop = loop_device(disk / "image", 64 << 20, teardown)
        subprocess.run(["mkfs.ext4", "-q", loop], check=True)
        subprocess.run(["mount", "-o", options, loop, str(place)], check=True)
        teardown.callback(subprocess.run, ["umount", str(place)], check=True)
        yield place


def explained(place: Path, disk: Path, program: str = PROGRAM) -> Breakdown:
    found = recorded(disk, sys.executable, "-c", program, str(place))
    hidden_ns = sum(sleeps.time_ns for sleeps in found.quality.unseen)
    assert found.residual_ns.mean() - hidden_ns <= 0.02 * found.writes.latency_ns.mean()
    return found


@pytest.mark.parametrize("mounted", [LEAST_NS // 1000], indirect=True)
def test_a_pause_is_as_long_as_the_file_system_was_told(mounted: Path, disk: Path) -> None:
    pauses = row(explained(mounted, disk), "pause")
    assert pauses.max() >= LEAST_NS
    # Few find the other's transaction as old as that already.
    assert pauses.sum() >= 10 * LEAST_NS


@pytest.mark.parametrize("mounted", [0], indirect=True)
def test_where_it_is_told_not_to_there_is_none(mounted: Path, disk: Path) -> None:
    assert "pause" not in [layer.name for layer in explained(mounted, disk).layers]


@pytest.fixture
def dirty_limits(file_system: Path) -> Iterator[Path]:
    """Those of its disk, which outlive it."""
    device = file_system.stat().st_dev
    limits = Path("/sys/class/bdi", f"{os.major(device)}:{os.minor(device)}")
    if not (limits / "max_bytes").exists():
        pytest.skip("this kernel has no such limit in bytes")
    try:
        yield limits
    finally:
        (limits / "max_ratio").write_text("100")
        (limits / "strict_limit").write_text("0")


@pytest.mark.parametrize("file_system", ["ext4"], indirect=True)
def test_who_writes_more_than_may_be_dirty_is_kept(
    file_system: Path, dirty_limits: Path, disk: Path
) -> None:
    """On its disk, whatever others have (balance_dirty_pages)."""
    assert "pause" not in [layer.name for layer in explained(file_system, disk, MUCH).layers]
    (dirty_limits / "strict_limit").write_text("1")
    (dirty_limits / "max_bytes").write_text(str(MOST_DIRTY))
    found = explained(file_system, disk, MUCH)
    assert row(found, "pause").sum() >= 0.5 * found.writes.latency_ns.sum()
