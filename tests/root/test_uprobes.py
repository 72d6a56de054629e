# SPDX-License-Identifier: Apache-2.0
"""Functions of a daemon are found in its file, and looked at while it lives."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOSYS
from pathlib import Path

from iostrata.trace.read import Trace, read_trace
from tests.root.daemon import Served, compiled, running
from tests.root.test_duties import recording

FUSE_WRITE = 16
REQUESTS = 25
# The recorder looks for new ones, and lets go of those that have ended, each second.
PATIENCE_S = 30
PROBES = ("virtiofs_request", "virtiofs_reply")


def errors(trace: Trace) -> dict[str, list[int]]:
    """What was told of each program, in order of time."""
    probes = trace.points["probe"]
    told: dict[str, list[int]] = {name: [] for name in PROBES}
    for program, error in zip(probes["program"].tolist(), probes["error"].tolist(), strict=True):
        if program.decode() in told:
            told[program.decode()].append(error)
    return told


def check(trace: Trace, served: list[Served]) -> None:
    """Each call of each function is an event, at its time by the daemon's own clock."""
    unique = [each.unique for each in served]
    request, reply = (trace.points[name] for name in PROBES)
    assert request["unique"].tolist() == reply["unique"].tolist() == unique
    assert set(request["opcode"].tolist()) == {FUSE_WRITE}
    for each, taken, answered in zip(
        served, request["time_ns"].tolist(), reply["time_ns"].tolist(), strict=True
    ):
        assert each.begin_ns <= taken < answered <= each.end_ns
    assert trace.lost_by_point == {}


def test_each_call_is_an_event_at_its_time(recorder: Path, disk: Path) -> None:
    """One function is in the dynamic table, the other is static."""
    program = compiled(disk, "-rdynamic")
    with (
        running(program, disk / "file") as daemon,
        recording(recorder, disk / "trace", "--path"),
    ):
        served = daemon.serve(REQUESTS)
    trace = read_trace(disk / "trace")
    check(trace, served)
    assert errors(trace) == {name: [0] for name in PROBES}
    assert set(trace.points["virtiofs_request"]["tgid"].tolist()) == {daemon.process.pid}


def test_another_root_does_not_hide_it(recorder: Path, disk: Path) -> None:
    """Its file is on a file system that only it has mounted, and it is in a PID namespace."""
    compiled(disk)
    mounted = disk / "mounted"
    mounted.mkdir()
    script = f"mount -t tmpfs tmpfs {mounted} && cp {disk}/virtiofsd {mounted} && exec $0 $1"
    before = ("unshare", "-mpf", "sh", "-c", script)
    with (
        running(mounted / "virtiofsd", disk / "file", *before) as daemon,
        recording(recorder, disk / "trace", "--path"),
    ):
        served = daemon.serve(REQUESTS)
    check(read_trace(disk / "trace"), served)


def test_a_symbol_that_is_not_there_is_told(recorder: Path, disk: Path) -> None:
    """Without its static symbols, the daemon's replies cannot be seen; its requests are."""
    with (
        running(compiled(disk, "-rdynamic", "-s"), disk / "file") as daemon,
        recording(recorder, disk / "trace", "--path"),
    ):
        served = daemon.serve(REQUESTS)
        words = [str(recorder), "--probes"]
        table = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    trace = read_trace(disk / "trace")
    assert errors(trace) == {"virtiofs_request": [0], "virtiofs_reply": [-ENOSYS]}
    assert len(trace.points["virtiofs_request"]) == len(served)
    assert len(trace.points["virtiofs_reply"]) == 0
    why = f"virtiofsd of process {daemon.process.pid}: it has no such symbol"
    assert f"virtiofs_reply\tvirtiofsd:virtio_send_msg\tvirtiofs\tENOSYS\t{why}" in table


def test_it_is_met_later_and_let_go_of_at_its_end(recorder: Path, disk: Path) -> None:
    """What is attached to keeps its file system from being unmounted."""
    compiled(disk)
    with in_memory(disk / "mounted") as mounted, recording(recorder, disk / "trace", "--path"):
        subprocess.run(["cp", disk / "virtiofsd", mounted], check=True)
        with running(mounted / "virtiofsd", disk / "file") as daemon:
            served = []
            for _ in range(REQUESTS):
                served += daemon.serve(1)
                time.sleep(0.2)
        deadline = time.monotonic() + PATIENCE_S
        while not unmounted(mounted):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    trace = read_trace(disk / "trace")
    seen = trace.points["virtiofs_request"]["unique"].tolist()
    # From some request on it sees them all.
    assert seen
    assert seen == [each.unique for each in served][-len(seen) :]
    assert errors(trace) == {name: [0] for name in PROBES}


@contextmanager
def in_memory(directory: Path) -> Iterator[Path]:
    """A file system of its own, of which nothing is left whatever happens."""
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", directory], capture_output=True, check=False)


def unmounted(directory: Path) -> bool:
    done = subprocess.run(["umount", directory], capture_output=True, check=False)
    return done.returncode == 0
