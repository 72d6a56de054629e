# SPDX-License-Identifier: Apache-2.0
"""Files whose file systems are in user space, on this kernel: their daemons are followed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from numpy.typing import NDArray

from iostrata.analysis import analyse
from iostrata.bench.place import NO_DISK, file_system_of
from iostrata.columns import Ints
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.trace.read import read_trace
from tests.root.conftest import iostrata, serve_slowly
from tests.root.test_record import good
from tests.synthetic import device

MOUNTS = Path("/proc/self/mountinfo")
WITHOUT_DATA = {"fuse.lxcfs", "fuse.portal", "fuse.gvfsd-fuse"}
WRITES, SERVICE_S, STOPPED_S = 20, 3e-3, 0.1
# All but the last are as the daemons make them; before that, one is stopped for a while.
WORKLOAD = f"""
import os, signal, sys, time
paths, daemon = sys.argv[1:3], int(sys.argv[3])
files = [os.open(path, os.O_WRONLY | os.O_DSYNC) for path in paths]
for number in range({WRITES}):
    for file in files:
        os.pwrite(file, bytes(8192), number % 8 * 8192)
os.kill(daemon, signal.SIGSTOP)
if not os.fork():
    time.sleep({STOPPED_S})
    with open("continued", "w") as said:
        said.write(str(time.monotonic_ns()))
    os.kill(daemon, signal.SIGCONT)
    os._exit(0)
with open("stopped", "w") as said:
    said.write(str(time.monotonic_ns()))
os.pwrite(files[0], bytes(8192), 0)
os.wait()
"""


@dataclass(frozen=True)
class Found:
    """``slept``, ``computed``: the file systems. ``stopped_ns``: before the last write."""

    breakdown: Breakdown
    slept: int
    computed: int
    stopped_ns: int

    def row(self, name: str) -> Ints:
        """Of a row or a segment, ns of each write; 0: no write was ever there."""
        layers, times = self.breakdown.layers, self.breakdown.time_ns
        rows = [
            time for layer, time in zip(layers, times, strict=True)
            if name in (layer.name, layer.segment)
        ]  # fmt: skip
        return np.sum(rows, axis=0) if rows else np.zeros(len(self.begin_ns), np.int64)

    @property
    def begin_ns(self) -> Ints:
        return self.breakdown.writes.begin_ns

    def to(self, file_system: int) -> NDArray[np.bool_]:
        """The writes to one, before the other's daemon was stopped."""
        before = self.begin_ns < self.stopped_ns
        mine: NDArray[np.bool_] = before & (self.breakdown.writes.device_key == file_system)
        # A busy machine may lose some, and says so.
        assert WRITES / 2 < np.count_nonzero(mine) <= WRITES
        return mine


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    above = tmp_path_factory.mktemp("fuse")
    if file_system_of(above) in NO_DISK:
        above = Path("/var/tmp")
    if file_system_of(above) in NO_DISK:
        pytest.skip("there is no directory on a disk")
    with TemporaryDirectory(dir=above) as place:
        yield Path(place)


@pytest.fixture(scope="module")
def found(place: Path, recorder: Path) -> Found:
    """Of a daemon that sleeps before it writes, and of one that computes."""
    probes = subprocess.run([recorder, "--probes"], capture_output=True, text=True, check=True)
    if "\tfuse_request_end\tfuse\tok" not in probes.stdout:
        pytest.skip("this kernel has no points of FUSE")
    with ExitStack() as stack:
        files = [place / name for name in ("slept", "computed")]
        for file in files:
            file.write_bytes(bytes(64 << 10))
        sleeps, _ = (
            serve_slowly(file, SERVICE_S, stack, *how)
            for file, how in zip(files, ([], ["busy"]), strict=True)
        )
        numbers = [file.stat().st_dev for file in files]
        done = iostrata("record", "-o", "recording", "--", sys.executable, "-c", WORKLOAD,
                        *map(str, files), str(sleeps), cwd=place)  # fmt: skip
    good(done.returncode, done.stderr)
    slept, computed = (device(os.major(number), os.minor(number)) for number in numbers)
    breakdown = analyse(open_recording(place / "recording"))
    return Found(breakdown, slept, computed, int((place / "stopped").read_text()))


def test_all_is_followed_to_the_daemons_and_to_their_disk(found: Found) -> None:
    """Both number their requests from the same number on."""
    (crossing,) = found.breakdown.quality.crossings
    assert crossing.hop == "fuse"
    assert crossing.ambiguous == 0
    # This kernel hides an event at times.
    assert crossing.followed >= 0.9 * crossing.asked > WRITES
    for file_system in (found.slept, found.computed):
        mine = found.to(file_system)
        latency = found.breakdown.writes.latency_ns[mine]
        assert np.median(found.row("device")[mine]) > 0
        assert np.median(found.breakdown.residual_ns[mine] / latency) < 0.05


def test_what_a_daemon_waits_for_is_told(found: Found, place: Path) -> None:
    """As long as it slept at least, but for some us that its timer ran before it was off its CPU;
    at most until it says that it is awake."""
    mine = found.to(found.slept)
    awake = np.loadtxt(place / "slept-served", np.int64)
    begin, waited = found.begin_ns[mine], found.row("fuse.wait")[mine]
    until = awake[np.searchsorted(awake, found.breakdown.writes.end_ns[mine]) - 1]
    assert np.median(waited) >= 0.99 * SERVICE_S * 1e9
    assert np.median(until - begin - waited) >= 0
    assert np.median(waited) > np.median(found.row("fuse.daemon")[mine])


def test_what_a_daemon_computes_is_told(found: Found) -> None:
    mine = found.to(found.computed)
    assert np.median(found.row("fuse.daemon")[mine]) >= SERVICE_S * 1e9
    assert np.median(found.row("fuse.wait")[mine]) == 0


def test_what_waits_for_a_daemon_that_is_stopped_is_queued(found: Found, place: Path) -> None:
    last = np.flatnonzero(found.begin_ns >= found.stopped_ns)
    assert len(last) or found.breakdown.quality.lost
    stopped = int((place / "continued").read_text()) - found.begin_ns[last]
    assert (found.row("fuse.queue")[last] >= stopped / 2).all()
    assert (found.row("fuse.queue")[last] <= found.breakdown.writes.latency_ns[last]).all()
    told = [line for line in found.breakdown.quality.connections if "was stopped for" in line]
    assert len(told) == 1 or found.breakdown.quality.lost, told


def is_mounted() -> bool:
    types = {line.partition(" - ")[2].split()[0] for line in MOUNTS.read_text().splitlines()}
    return any(found.partition(".")[0] in ("fuse", "fuseblk") for found in types - WITHOUT_DATA)


def test_what_processes_read_is_looked_at_where_daemons_serve(recorder: Path, disk: Path) -> None:
    """Each hit of that costs everybody."""
    before = is_mounted()
    subprocess.run([recorder, "-o", disk / "trace", "--", "true"], check=True, capture_output=True)
    programs = read_trace(disk / "trace").points["probe"]["program"].tolist()
    if before != is_mounted():
        pytest.skip("a file system was mounted meanwhile")
    assert (b"fuse_taken" in programs) == before
    assert b"fuse_end" in programs
