# SPDX-License-Identifier: Apache-2.0
"""iostrata against programs that measure the same calls from outside: fio and pg_test_fsync.

They read the clock in the process, so a little of its own time is in their figures.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from tests.root.conftest import iostrata, loop_device

FIO = ("fio", "--name=w", "--rw=randwrite", "--bs=8k", "--size=32m", "--time_based",
       "--runtime=2", "--output-format=json")  # fmt: skip


def close(ours_ns: float, theirs_ns: float, calls: int = 1) -> bool:
    """Within 3 % of each other, or 3 us of their own for each call that they time; what is more."""
    return abs(ours_ns - theirs_ns) <= max(0.03 * theirs_ns, 3_000 * calls)


def recorded(place: Path, *command: str) -> Breakdown:
    recording = place / "recording"
    done = iostrata("record", "-o", str(recording), "--", *command)
    assert done.returncode == 0, done.stderr
    try:
        return analyse(open_recording(recording))
    finally:
        shutil.rmtree(recording)


def fio(place: Path, *options: str) -> tuple[Breakdown, dict[str, Any]]:
    if not shutil.which("fio"):
        pytest.skip("fio is not installed")
    output = place / "fio.json"
    breakdown = recorded(place, *FIO, f"--output={output}", f"--directory={place}", *options)
    return breakdown, json.loads(output.read_text())["jobs"][0]


def holds_together(breakdown: Breakdown) -> None:
    """Identity write by write; the residual small in the mean, at p50 and at p99; nothing lost."""
    total = breakdown.writes.latency_ns
    assert np.array_equal(breakdown.time_ns.sum(axis=0) + breakdown.residual_ns, total)
    # This machine's kernel may hide a switch now and then, which is told.
    hidden_ns = sum(sleeps.time_ns for sleeps in breakdown.quality.unseen)
    assert abs(breakdown.residual_ns.mean() - hidden_ns) <= 0.01 * total.mean()
    for percent in (50, 99):
        assert np.percentile(breakdown.residual_ns, percent) <= 0.01 * np.percentile(total, percent)
    assert not breakdown.quality.lost
    assert sum(breakdown.left_out.values()) <= 0.001 * len(breakdown.writes)


@pytest.mark.parametrize("file_system", ["disk", "ext4", "xfs"], indirect=True)
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "buffered"])
def test_write_and_fdatasync_are_what_fio_measured(file_system: Path, direct: bool) -> None:
    breakdown, job = fio(file_system, f"--direct={int(direct)}", "--fdatasync=1")
    holds_together(breakdown)
    assert len(breakdown.writes) == job["sync"]["lat_ns"]["N"]
    theirs = job["write"]["clat_ns"]["mean"] + job["sync"]["lat_ns"]["mean"]
    assert close(breakdown.writes.latency_ns.mean(), theirs, calls=2)


@pytest.mark.parametrize("file_system", ["disk", "ext4", "xfs"], indirect=True)
def test_a_synchronous_write_is_what_fio_measured_in_the_tail_too(file_system: Path) -> None:
    """Against fio's log of every write: its percentiles come from a histogram."""
    log = file_system / "log"
    breakdown, job = fio(file_system, "--direct=1", "--sync=dsync", f"--write_lat_log={log}")
    holds_together(breakdown)
    latency = breakdown.writes.latency_ns
    assert breakdown.writes.names["method"] == ("open_datasync",)
    # fio writes its log when all is done, and then without O_DSYNC.
    assert len(latency) == job["write"]["total_ios"]
    theirs = np.loadtxt(f"{log}_clat.1.log", delimiter=",", usecols=1)
    assert len(theirs) == len(latency)
    # Write by write. What fio itself waits for a CPU between its looks at the clock is in no call.
    outside = theirs - latency
    assert outside.min() >= 0
    alone = outside <= np.percentile(outside, 98)
    assert close(latency[alone].mean(), theirs[alone].mean())
    assert close(float(np.percentile(latency[alone], 99)), float(np.percentile(theirs[alone], 99)))


@pytest.mark.parametrize("file_system", ["ext4"], indirect=True)
@pytest.mark.parametrize("engine", ["io_uring", "libaio"])
def test_asynchronous_writes_are_what_fio_measured(file_system: Path, engine: str) -> None:
    breakdown, job = fio(file_system, f"--ioengine={engine}", "--direct=1", "--sync=dsync")
    total = breakdown.writes.latency_ns
    assert np.array_equal(breakdown.time_ns.sum(axis=0) + breakdown.residual_ns, total)
    assert breakdown.writes.names["method"] == (f"{engine}:open_datasync",)
    assert len(breakdown.writes) == job["write"]["total_ios"]
    assert close(total.mean(), job["write"]["lat_ns"]["mean"])


def pg_test_fsync() -> str | None:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_test_fsync"))
    return shutil.which("pg_test_fsync") or (str(installed[-1]) if installed else None)


@pytest.mark.skipif(not pg_test_fsync(), reason="pg_test_fsync is not installed")
def test_the_methods_of_pg_test_fsync_take_what_it_says(disk: Path) -> None:
    """Its first comparison, one 8 kB write: each method's second against its usecs/op."""
    output = disk / "output"
    # It has told them when it begins with the next.
    script = f"""
        {pg_test_fsync()} -s 1 -f {disk}/file > {output} &
        until grep -q "using two" {output} || ! kill -0 $!; do sleep 0.1; done
        kill $!; wait
    """
    breakdown = recorded(disk, "sh", "-c", script)
    holds_together(breakdown)
    one_write = output.read_text().split("Compare file sync methods")[1]
    rates = re.findall(r"(open_datasync|fdatasync|fsync|open_sync) +([\d.]+) ops/sec", one_write)
    assert [method for method, _ in rates] == ["open_datasync", "fdatasync", "fsync", "open_sync"]
    # Before them it fills its file.
    of_one = breakdown.writes.size_bytes == 8192
    codes, names = breakdown.writes.codes["method"][of_one], breakdown.writes.names["method"]
    begins, ends = breakdown.writes.begin_ns[of_one], breakdown.writes.end_ns[of_one]
    starts = np.flatnonzero(np.diff(codes, prepend=-1, append=-1))
    for (method, rate), first, after in zip(rates, starts[:4], starts[1:5], strict=True):
        assert names[codes[first]] == method
        # Its time is that of the whole second: a busy machine's, between the calls, too.
        ours = (ends[after - 1] - begins[first]) / (after - first)
        assert close(ours, 1e9 / float(rate)), method
        assert (ends - begins)[first:after].mean() <= ours


def test_a_journal_on_a_disk_of_its_own_is_followed_there(tmp_path: Path) -> None:
    """Each write makes the file longer, for which that journal writes its log, then commits."""
    if not shutil.which("fio"):
        pytest.skip("fio is not installed")
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    with contextlib.ExitStack() as teardown:
        data, log = (loop_device(tmp_path / name, 64 << 20, teardown) for name in ("data", "log"))
        for command in (
            ["mke2fs", "-q", "-O", "journal_dev", "-b", "4096", log],
            ["mkfs.ext4", "-q", "-b", "4096", "-J", f"device={log}", data],
            ["mount", data, str(mounted)],
        ):
            subprocess.run(command, check=True)
        teardown.callback(subprocess.run, ["umount", str(mounted)], check=True)
        command = ["fio", "--name=w", f"--directory={mounted}", "--rw=write", "--bs=8k"]
        breakdown = recorded(tmp_path, *command, "--size=1m", "--fallocate=none", "--fsync=1")
    journal = next(n for n, layer in enumerate(breakdown.layers) if layer.name == "device.journal")
    assert len(breakdown.writes) == 127  # fio leaves out the last one's sync
    assert (breakdown.time_ns[journal] > 0).all()
