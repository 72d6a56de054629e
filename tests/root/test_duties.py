# SPDX-License-Identifier: Apache-2.0
"""A machine that does several things at once: each thread is recorded as what it does."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from iostrata.analysis import analyse
from iostrata.record.duties import ALL, SERVING, WORKLOAD
from iostrata.recording import open_recording
from iostrata.trace.layout import THREAD_DAEMON, THREAD_TARGET
from iostrata.trace.read import Trace, read_trace
from tests.root.daemon import Daemon, compiled, renamed, running
from tests.root.test_record import writer

SERVED, WRITES = 12, 20


@contextmanager
def recording(recorder: Path, directory: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Until the body has ended."""
    command = [str(recorder), "-o", str(directory), "--status-fd", "1", "--control-fd", "0", *words]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert any(line.startswith("ready ") for line in process.stdout)
        yield process
        process.communicate()
        assert process.returncode == 0


def calls_of(trace: Trace, daemon: Daemon) -> int:
    """Its calls, as those of a daemon's threads; the file is written by nobody else."""
    threads, calls = trace.points["thread"], trace.points["syscall"]
    own = calls["inode"] == daemon.file.stat().st_ino
    assert set(calls["tgid"][own].tolist()) <= {daemon.process.pid}
    kinds = threads["kind"][threads["tgid"] == daemon.process.pid]
    assert set(kinds.tolist()) <= {THREAD_DAEMON}
    return int(np.count_nonzero(own))


def test_who_serves_is_known_by_what_it_executes(recorder: Path, disk: Path) -> None:
    """One that runs already, one that begins later, and one of another name."""
    program = compiled(disk)
    other = renamed(program, "virtiofs")
    with (
        running(program, disk / "first") as first,
        running(other, disk / "other") as unknown,
        recording(recorder, disk / "trace", "--duty", "virtiofs"),
    ):
        first.serve(SERVED)
        unknown.serve(SERVED)
        with running(program, disk / "second") as second:
            second.serve(SERVED)
    trace = read_trace(disk / "trace")
    assert trace.env["filter"] == "--duty virtiofs"
    assert [calls_of(trace, daemon) for daemon in (first, second, unknown)] == [
        2 * SERVED, 2 * SERVED, 0
    ]  # fmt: skip


def test_of_qemu_nbd_what_its_images_are_is_told(recorder: Path, disk: Path) -> None:
    """As of virtual machine monitors: where in such a file what is kept is not known else."""
    with running(renamed(compiled(disk), "qemu-nbd"), disk / "image") as daemon:
        daemon.file.write_bytes(bytes(64) + b"\x7f\x10\xda\xbe" + bytes(512))
        with recording(recorder, disk / "trace", "--duty", "qemu_nbd"):
            daemon.serve(SERVED)
    trace = read_trace(disk / "trace")
    assert calls_of(trace, daemon) == 2 * SERVED
    assert {*trace.facts.images.values()} == {"vdi"}


def test_what_is_served_is_not_the_workload(recorder: Path, disk: Path) -> None:
    """Both are recorded at once, and only the workload's writes are analysed."""
    with (
        running(compiled(disk), disk / "first") as daemon,
        recording(recorder, disk / "trace", "--all", "--path"),
    ):
        daemon.serve(SERVED)
        subprocess.run(writer("fdatasync", WRITES), cwd=disk, check=True)
    trace = read_trace(disk / "trace")
    assert trace.env["filter"] == " ".join(["--all", *(f"--duty {duty}" for duty in ALL)])
    assert calls_of(trace, daemon) == 2 * SERVED
    assert {THREAD_TARGET, THREAD_DAEMON} <= set(trace.points["thread"]["kind"].tolist())
    written = analyse(open_recording(disk / "trace")).writes.inode
    assert np.count_nonzero(written == (disk / "data").stat().st_ino) == WRITES
    assert daemon.file.stat().st_ino not in written


def test_the_recorder_knows_each_duty(recorder: Path) -> None:
    command = [str(recorder), "--probes", *(word for duty in ALL for word in ("--duty", duty))]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_duty_that_there_is_not_is_refused(recorder: Path, disk: Path) -> None:
    command = [str(recorder), "-o", str(disk / "trace"), "--duty", "baker", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert "--duty baker makes no sense" in done.stderr


def test_the_path_is_all_that_is_done_for_others() -> None:
    assert set(ALL) == {WORKLOAD, *SERVING}


def test_what_others_have_open_is_not_looked_through(recorder: Path, disk: Path) -> None:
    """Of a workload alone: there may be thousands of processes, each with thousands of files."""
    log, number = disk / "log", re.compile(r'readlinkat\(\d+, "\d+"')
    looked = {}
    for words in (["--all"], ["--duty", "vmm"]):
        command = ["strace", "-e", "trace=readlinkat", "-o", log, recorder, "-o", disk / words[-1]]
        subprocess.run([*map(str, command), *words, "--duration", "2"], check=True)
        looked[words[-1]] = len(number.findall(log.read_text()))
    assert looked["--all"] == 0
    # The test can fail: where there may be virtual machines, processes are looked at for them.
    assert looked["vmm"] > 0 or not Path("/sys/module/kvm").exists()
