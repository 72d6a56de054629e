# SPDX-License-Identifier: Apache-2.0
"""Who writes is stopped on its way back from its calls: in no latency, and said so."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.analysis.prepared import prepare
from iostrata.analysis.stopped import Stop, stops_of
from iostrata.recording import open_recording
from tests.root.conftest import iostrata, remove_group
from tests.root.test_record import good
from tests.root.test_uring import requests

__all__ = ["requests"]

GROUPS = Path("/sys/fs/cgroup")
TIMES, STOPPED_S = 5, 0.1

# A child writes, and tells what its writes took by its own clock; its parent stops it meanwhile.
STOPPED = f"""
import os, signal, sys, time
file, procs, state, stop, go_on = sys.argv[1:]
ready, child_ready = os.pipe()
done, parent_done = os.pipe()
child = os.fork()
if not child:
    os.close(parent_done)
    os.set_blocking(done, False)
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_DSYNC)
    took = number = 0
    while True:
        begin = time.monotonic_ns()
        os.pwrite(fd, bytes(4096), number % 64 * 4096)
        took += time.monotonic_ns() - begin
        number += 1
        if number == 1:
            os.write(child_ready, b".")
        try:
            if not os.read(done, 1):
                break
        except BlockingIOError:
            pass
    os.write(1, b"%d\\n" % took)
    os._exit(0)
os.close(done)
os.read(ready, 1)
if procs:
    open(procs, "w").write(str(child))

def turn(word, number):
    if state:
        open(state, "w").write(word)
    else:
        os.kill(child, number)

for _ in range({TIMES}):
    turn(stop, signal.SIGSTOP)
    time.sleep({STOPPED_S})
    turn(go_on, signal.SIGCONT)
    time.sleep(0.05)
os.close(parent_done)
os.wait()
"""


@pytest.fixture(params=["signal", "freezer", "cgroup.freeze"])
def means(request: pytest.FixtureRequest) -> Iterator[tuple[str, ...]]:
    """The files of the group that it is put into and stopped by, and what is written there."""
    if request.param == "signal":
        yield "", "", "", ""
        return
    first = request.param == "freezer"
    second = GROUPS if (GROUPS / "cgroup.controllers").exists() else GROUPS / "unified"
    group = (GROUPS / "freezer" if first else second) / f"iostrata-stops-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no group can be made: {error}")
    procs, state = group / "cgroup.procs", group / ("freezer.state" if first else "cgroup.freeze")
    words = ("FROZEN", "THAWED") if first else ("1", "0")
    if not state.exists():
        group.rmdir()
        pytest.skip("this kernel's groups have no freezer")
    yield str(procs), str(state), *words
    state.write_text(words[1])
    remove_group(group)


def test_what_stops_take_is_told(disk: Path, means: tuple[str, ...]) -> None:
    directory = disk / "recording"
    command = (sys.executable, "-c", STOPPED, str(disk / "file"), *means)
    done = iostrata("record", "--quiet", "-o", str(directory), "--", *command)
    good(done.returncode, done.stderr)
    own_ns = int(done.stdout)
    found = prepare(open_recording(directory))
    stop = Stop.FREEZER if means[1] else Stop.SIGNAL
    stops_ns = sum(int(stops_of(top, stop)[0].sum()) for top in found.tops)
    latency_ns = int(found.writes.latency_ns.sum())
    # Nearly all of the time is in calls, and in none while it is stopped.
    assert stops_ns > 0.5 * TIMES * STOPPED_S * 1e9
    assert latency_ns <= own_ns <= 1.1 * (latency_ns + stops_ns)
    (line,) = [
        gap.reason
        for gap in analyse(open_recording(directory)).quality.not_observed
        if gap.layer in ("signals", "freezer")
    ]
    # One that comes while it waits for the disk, and is over by then, stops nobody.
    count = re.match(r"stopped threads that write (\d+) times? beside their writes", line)
    assert count
    assert TIMES // 2 < int(count[1]) <= TIMES


def test_what_is_complete_in_a_chain_waits_for_who_is_stopped(disk: Path, requests: Path) -> None:
    """It is the submitter who lets the sync begin that is linked behind a direct write."""
    directory = disk / "recording"
    command = (str(requests), str(disk / "file"), "halted", str(2 * TIMES))
    done = iostrata("record", "--quiet", "-o", str(directory), "--", *command)
    good(done.returncode, done.stderr)
    recording = open_recording(directory)
    amid_ns = sum(int(stops_of(top, Stop.SIGNAL)[1].sum()) for top in prepare(recording).tops)
    assert amid_ns > TIMES * STOPPED_S * 1e9
    found = analyse(recording)
    rows = {layer.row: int(ns.sum()) for layer, ns in zip(found.layers, found.time_ns, strict=True)}
    assert rows["wakeup.reap"] > 0, rows
    # But for the disk's own time. A busy one's write is a worker's, which is stopped as well.
    disk_ns = sum(ns for row, ns in rows.items() if row.startswith(("device", "block")))
    assert rows["wakeup.reap"] + rows["wakeup.worker"] >= 0.95 * amid_ns - disk_ns, rows
    assert found.residual_ns.sum() <= 0.05 * amid_ns
