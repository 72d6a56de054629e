# SPDX-License-Identifier: Apache-2.0
"""The recorder and bpftrace's script at once, of the same writes: what each says of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from iostrata.analysis import analyse
from iostrata.columns import Ints
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.script import script
from tests.root.conftest import iostrata, loop_device

COUNT, SIZE = 60, 8192
NAME = f"ios-{os.getpid()}"
WRITES = """
import os, sys
open("/proc/self/comm", "w").write(sys.argv[2])
data = bytes(int(sys.argv[3]))
durable = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
other = os.open(sys.argv[1], os.O_WRONLY)
for number in range(int(sys.argv[4])):
    os.pwrite(durable, data, number * len(data))
    os.pwrite(other, data, number * len(data))
    os.fdatasync(other)
"""
BETWEEN_NS = 100_000
"""One tool's probe takes its time before or after the other's work at the same hook is done."""


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of its own, over memory, which nobody else uses."""
    if not shutil.which("bpftrace") or not shutil.which("mkfs.ext4"):
        pytest.skip("bpftrace or mkfs.ext4 is not installed")
    place, directory = Path(f"/dev/shm/iostrata-script-{os.getpid()}"), tmp_path / "mounted"
    directory.mkdir()
    with contextlib.ExitStack() as teardown:
        teardown.callback(place.unlink, missing_ok=True)
        loop = loop_device(place, 64 << 20, teardown, direct=False)
        subprocess.run(["mkfs.ext4", "-q", loop], check=True)
        subprocess.run(["mount", loop, str(directory)], check=True)
        teardown.callback(subprocess.run, ["umount", str(directory)], check=True)
        yield directory


@contextlib.contextmanager
def printing(output: Path) -> Iterator[None]:
    """bpftrace runs the script meanwhile, for threads of that name."""
    file, errors = output.with_name("iostrata.bt"), output.with_name("errors")
    file.write_text(script())
    with output.open("w") as out, errors.open("w") as err:
        tracer = subprocess.Popen(
            ["bpftrace", str(file), NAME], stdout=out, stderr=err,
            env={**os.environ, "BPFTRACE_PERF_RB_PAGES": "1024"},
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 120
            while "begun" not in output.read_text():
                assert tracer.poll() is None, errors.read_text()
                assert time.monotonic() < deadline, errors.read_text()
                time.sleep(0.1)
            yield
            time.sleep(0.3)
            tracer.send_signal(signal.SIGINT)
            tracer.wait(timeout=120)
        finally:
            tracer.kill()
            tracer.wait()


@pytest.fixture
def both(mounted: Path, tmp_path: Path) -> tuple[Breakdown, Breakdown]:
    """What the recorder says of the writes, and what the script's recording does."""
    ours, theirs, output = (tmp_path / name for name in ("ours", "theirs", "out.txt"))
    with printing(output):
        done = iostrata(
            "record", "-o", str(ours), "--", sys.executable, "-c", WRITES,
            str(mounted / "file"), NAME, str(SIZE), str(COUNT),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    done = iostrata("import", str(output), "-o", str(theirs))
    # A busy machine may lose lines: that is said, and what they touch is left out.
    assert done.returncode in (0, 7), done.stderr
    return analyse(open_recording(ours)), analyse(open_recording(theirs))


def time_of(found: Breakdown, *rows: str) -> Ints:
    of = [row for row, layer in enumerate(found.layers) if layer.name in rows]
    total: Ints = found.time_ns[of].sum(axis=0)
    return total


def methods(found: Breakdown) -> NDArray[np.str_]:
    return np.array(found.writes.names["method"])[found.writes.codes["method"]]


def nearest(times_ns: Ints, others_ns: Ints) -> Ints:
    """The index of the one of ``times_ns``, which are in order, that each of the others is at."""
    halves_ns = times_ns[:-1] + np.diff(times_ns) // 2
    found: Ints = np.searchsorted(halves_ns, others_ns)
    return found


def test_the_same_writes_take_as_long(both: tuple[Breakdown, Breakdown]) -> None:
    """By method as many; each as long, and as long in the device."""
    ours, theirs = both
    assert len(ours.writes) == 2 * COUNT
    lost = sum(theirs.quality.lost.values())
    assert len(theirs.writes) + sum(theirs.left_out.values()) == 2 * COUNT or lost
    # The same write ends at the same instant, by clocks that only a suspended machine tells apart.
    # Where nothing is to be written any more, ends are closer to each other than BETWEEN_NS.
    same = nearest(ours.writes.end_ns, theirs.writes.end_ns)
    near = np.abs(ours.writes.end_ns[same] - theirs.writes.end_ns) <= BETWEEN_NS
    assert np.count_nonzero(near) >= COUNT
    assert np.count_nonzero(~near) <= 0.05 * len(near)
    same, rows = same[near], np.flatnonzero(near)
    assert len(np.unique(same)) == len(same)
    assert methods(ours)[same].tolist() == methods(theirs)[rows].tolist()
    for column in ("tid", "device_key", "inode", "size_bytes"):
        one, other = getattr(ours.writes, column), getattr(theirs.writes, column)
        assert np.array_equal(one[same], other[rows]), column

    latency = ours.writes.latency_ns[same]
    off = np.abs(theirs.writes.latency_ns[rows] - latency)
    assert off.mean() <= 0.01 * latency.mean() + BETWEEN_NS
    assert np.median(off) <= 0.01 * np.median(latency) + BETWEEN_NS // 2

    for kinds in (("device.data",), ("device.flush",), ("device.journal", "device.meta")):
        truth, told = time_of(ours, *kinds)[same], time_of(theirs, *kinds)[rows]
        assert truth.sum() > 0, kinds
        # What a machine hides from both tools is in neither.
        seen = (truth > 0) == (told > 0)
        assert np.count_nonzero(~seen) <= 0.05 * len(seen) + 1, kinds
        assert np.median(np.abs(told - truth)[seen]) <= 0.05 * truth.mean() + BETWEEN_NS // 4, kinds
    assert theirs.residual_ns[rows].sum() <= 0.1 * latency.sum()
    assert not theirs.quality.ties["time"]
    assert not theirs.quality.damage
