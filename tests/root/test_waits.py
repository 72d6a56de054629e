# SPDX-License-Identifier: Apache-2.0
"""Threads that wait for each other, for kernel workers, and below an overlay: on this kernel."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from iostrata.analysis import analyse
from iostrata.bench.place import file_system_of
from iostrata.recording import open_recording
from iostrata.trace.read import Trace, read_trace
from tests.root.conftest import iostrata
from tests.root.test_record import good

# Four threads that append to one file, or to one each.
APPENDERS = """
import os, sys, threading
def append(name):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(150):
        os.write(fd, bytes(500))
        os.fdatasync(fd)
threads = [threading.Thread(target=append, args=(name,)) for name in sys.argv[1:]]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""

COUNT = 4
LOOP_MAJOR = 7
# So many processes that append to one file.
PROCESSES = """
import os
children = [os.fork(), os.fork()]
fd = os.open("a", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for _ in range(1500):
    os.write(fd, bytes(500))
    os.fdatasync(fd)
for child in filter(None, children):
    os.waitpid(child, 0)
"""

APPENDS = """
import os
fd = os.open("a", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for _ in range(4):
    os.write(fd, bytes(500))
    os.fdatasync(fd)
"""

WHOLE = """
import ctypes, os
files = [os.open(f"file{number}", os.O_WRONLY | os.O_CREAT) for number in range(20)]
for file in files:
    os.write(file, bytes(3000))
ctypes.CDLL(None).syncfs(files[0])
"""

REQ_OP_MASK, REQ_OP_WRITE = 0xFF, 1
# What is left to chance: waits that began before the recording saw who is waited for.
UNEXPLAINED = 0.03
# One write is one draw: this machine's kernel may hide what ended its longest sleep.
TIMES = 3
# Of the sleeps: what was let go before it was known.
UNSEEN = 0.0005


def layers(directory: Path, *names: str) -> dict[str, Any]:
    """Records the appenders there; the shares of the rows."""
    recording = directory.parent / f"{directory.name}-recording"
    done = iostrata("run", "-o", str(recording), "--json", "-", "--",
                    sys.executable, "-c", APPENDERS, *names, cwd=directory)  # fmt: skip
    good(done.returncode, done.stderr)
    document = json.loads(done.stdout)
    assert document["writes"]["analysed"] > 140 * len(names)
    rows = {row["layer"]: row["share"] for row in document["layers"]}
    return rows | {"unattributed": unexplained(document)}


def unexplained(document: dict[str, Any]) -> float:
    """The share of what is unattributed, but for what this machine's kernel hid, which is told."""
    hidden_ns = sum(sleeps["mean_ns"] for sleeps in document["quality"].get("unseen", []))
    share: float = document["residual"]["share"] - hidden_ns / document["total_ns"]["mean"]
    return share


@pytest.mark.parametrize("names", ["aaaa", "abcd"])
def test_threads_that_wait_for_each_other(names: str, disk: Path) -> None:
    found = layers(disk, *names)
    assert found["unattributed"] <= UNEXPLAINED


def hidden(trace: Trace) -> int:
    """Requests whose completion no tool is told of: so do some machines' kernels while certain
    tasks have a CPU. Each may have been what all who slept waited for."""
    with_data = []
    for point in ("block_rq_issue", "block_rq_complete"):
        requests = trace.points[point].integers("flags", "size_bytes")
        writes = requests["flags"] & REQ_OP_MASK == REQ_OP_WRITE
        with_data.append(int((writes & (requests["size_bytes"] > 0)).sum()))
    return max(with_data[0] - with_data[1], 0)


def test_the_end_of_every_sleep_is_seen(disk: Path) -> None:
    """Of one, too, that was let go while it was leaving its CPU, where there was none to run."""
    recording = disk / "recording"
    done = iostrata("record", "--why", "-o", str(recording), "--",
                    sys.executable, "-c", PROCESSES, cwd=disk)  # fmt: skip
    good(done.returncode, done.stderr)
    (trace,) = open_recording(recording).traces()
    resumed = trace.points["sched_resume"].integers("state", "wake_ns")
    slept = resumed["state"] != 0
    assert slept.sum() > 1000
    unseen = (resumed["wake_ns"][slept] == 0).sum()
    assert unseen <= UNSEEN * slept.sum() + COUNT * hidden(trace)


def test_a_worker_is_known_from_its_first_work_on(disk: Path) -> None:
    """Of ext4's that end appends, the first one's wake-up came before it was recorded."""
    recording = disk / "recording"
    done = iostrata("record", "--why", "-o", str(recording), "--",
                    sys.executable, "-c", APPENDS, cwd=disk)  # fmt: skip
    good(done.returncode, done.stderr)
    found = analyse(open_recording(recording))
    worked = sum(
        int(times.sum())
        for layer, times in zip(found.layers, found.time_ns, strict=True)
        if layer.name in ("wakeup.worker", "wakeup.runqueue")
    )
    if not worked and file_system_of(disk) != "ext4":
        pytest.skip("no worker ends appends here")
    # What it waited for itself in that, before it was recorded, is not known.
    waits = [site.time_ns for site in found.quality.sites if "writeback" in site.site]
    unknown = sum(waits) * len(found.writes)
    assert unknown <= 0.1 * (worked + unknown), found.quality.sites


def test_a_journals_thread_is_known_from_its_first_commit_on(overlay: Path) -> None:
    """What let it go for that, was before it was recorded."""
    recording = overlay.parent / "recording"
    done = iostrata("record", "-o", str(recording), "--", sys.executable, "-c", APPENDS,
                    cwd=overlay)  # fmt: skip
    good(done.returncode, done.stderr)
    points = read_trace(recording / "local").points
    commits = points["jbd2_start_commit"].integers("time_ns", "tid", "dev")
    of_loop = commits["dev"] >> 20 == LOOP_MAJOR
    thread, begin = commits["tid"][of_loop][0], commits["time_ns"][of_loop][0]
    woken = points["sched_woken"].integers("subject_tid", "wake_ns", "on_ns")
    (first,) = (woken["subject_tid"] == thread).nonzero()[0]
    assert 0 < woken["wake_ns"][first] <= woken["on_ns"][first] <= begin


def test_the_journal_below_an_overlay_is_watched(overlay: Path) -> None:
    found = layers(overlay, "a", "b")
    assert found["journal.logging"] > 0
    assert found["unattributed"] <= UNEXPLAINED


def whole(to: Path, merged: Path) -> dict[str, Any]:
    """The document of one syncfs(2) of twenty new files."""
    done = iostrata("run", "-o", str(to), "--json", "-", "--",
                    sys.executable, "-c", WHOLE, cwd=merged)  # fmt: skip
    good(done.returncode, done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["writes"]["analysed"] == 1
    return document


def test_an_overlay_that_is_synchronised_as_a_whole(overlay: Path) -> None:
    """Before any file of it: nothing else tells which journal that waits for."""
    found = [whole(overlay.parent / f"recording-{time}", overlay) for time in range(TIMES)]
    for document in found:
        assert "journal.logging" in {row["layer"] for row in document["layers"]}
    left = [unexplained(document) for document in found]
    assert statistics.median(left) <= UNEXPLAINED, [document["quality"] for document in found]
