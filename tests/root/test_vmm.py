# SPDX-License-Identifier: Apache-2.0
"""--path on this kernel: a process that holds a virtual machine is recorded, no other is."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.hops.images import image_files_of
from iostrata.recording import open_recording
from iostrata.trace.layout import CALL_FALLOCATE, CALL_FDATASYNC, CALL_PWRITE64, THREAD_VMM
from iostrata.trace.read import Trace, read_trace

KVM = "/dev/kvm"
KVM_CREATE_VM = 0xAE01
WRITES = 20
# Argument 1: hold a virtual machine; 2: the file. Writes when told, in a thread born then.
WRITER = f"""
import fcntl, os, sys, threading

machine = fcntl.ioctl(os.open("{KVM}", os.O_RDWR), {KVM_CREATE_VM}, 0) if sys.argv[1] == "1" else -1
descriptor = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT, 0o600)
print("up", flush=True)

def write() -> None:
    for number in range({WRITES}):
        os.posix_fallocate(descriptor, 4096 * number, 4096)
        os.pwrite(descriptor, bytes(4096), 4096 * number)
        os.fdatasync(descriptor)

sys.stdin.readline()
thread = threading.Thread(target=write)
thread.start()
thread.join()
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def kvm() -> None:
    try:
        device = os.open(KVM, os.O_RDWR)
    except OSError as error:
        pytest.skip(f"{KVM}: {error.strerror}")
    try:
        os.close(fcntl.ioctl(device, KVM_CREATE_VM, 0))
    except OSError as error:
        pytest.skip(f"no virtual machine can be made here: {error.strerror}")
    finally:
        os.close(device)


class Writer:
    def __init__(self, file: Path, holds_machine: bool, words: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(int(holds_machine)), str(file), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.hears("up")

    def hears(self, word: str) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline() == f"{word}\n"

    def write(self) -> None:
        assert self.process.stdin
        print(file=self.process.stdin, flush=True)
        self.hears("done")


@contextmanager
def writer(file: Path, *words: str, holds_machine: bool) -> Iterator[Writer]:
    made = Writer(file, holds_machine, words)
    with made.process:
        yield made
        made.process.communicate("\n")


@contextmanager
def recording(recorder: Path, directory: Path) -> Iterator[None]:
    command = [str(recorder), "--path", "-o", str(directory), "--status-fd", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("ready ")
        yield
        process.send_signal(signal.SIGTERM)
        process.communicate()
        assert process.returncode == 0


def check(trace: Trace, tgid: int, inode: int) -> None:
    threads, calls = trace.points["thread"], trace.points["syscall"]
    own = threads["tgid"] == tgid
    kinds = threads["kind"][own]
    # The first thread, and the one that wrote; they may be told anew.
    assert len(set(threads["subject_tid"][own].tolist())) == 2
    assert set(kinds.tolist()) == {THREAD_VMM}
    assert set(calls["tgid"].tolist()) == {tgid}
    own = calls["inode"] == inode
    written = own & (calls["call"] == CALL_PWRITE64)
    assert calls["offset_bytes"][written].tolist() == [4096 * n for n in range(WRITES)]
    assert np.count_nonzero(own & (calls["call"] == CALL_FDATASYNC)) == WRITES
    # Nothing durable, but what is written waits for it.
    room = own & (calls["call"] == CALL_FALLOCATE)
    assert calls["offset_bytes"][room].tolist() == [4096 * n for n in range(WRITES)]
    assert set(calls["size_bytes"][room].tolist()) == {4096}
    slept = np.isin(trace.points["sched_resume"]["subject_tid"], calls["tid"][own])
    assert np.count_nonzero(slept) >= WRITES


def test_a_process_that_holds_a_machine_is_recorded(recorder: Path, disk: Path) -> None:
    with (
        writer(disk / "image", holds_machine=True) as vmm,
        writer(disk / "other", holds_machine=False) as other,
    ):
        with recording(recorder, disk / "trace"):
            other.write()
            vmm.write()
        check(read_trace(disk / "trace"), vmm.process.pid, (disk / "image").stat().st_ino)


@pytest.mark.parametrize(
    ("words", "name", "limited"),
    [
        (("-name", "vm1", "-drive", "file=a,throttling.iops-total=50"), "vm1", True),
        (("-name", "guest=vm 2,debug-threads=on", "-drive", "file=a,bps_wr=1M,id=b"), "vm 2", True),
        (("--object", '{"qom-type":"throttle-group","limits":{"iops-write": 20}}'), "", True),
        (("-object", "throttle-group,id=t,x-bps-total=4096"), "", True),
        (("-drive", "file=a,throttling.iops-total=0,throttling.iops-size=4096"), "", False),
        (("-append", "iops=50"), "", False),
        (("-name", "iops=50"), "iops=50", False),
    ],
)
@pytest.mark.parametrize("begins", ["before", "after"])
def test_name_and_limits_of_a_command_line(
    begins: str, words: tuple[str, ...], name: str, limited: bool, recorder: Path, disk: Path
) -> None:
    """Of a process that runs a virtual machine, however late it came; nothing else is kept.

    Others may run such processes here meanwhile.
    """
    with ExitStack() as until_ended:
        if begins == "before":
            vmm = until_ended.enter_context(writer(disk / "image", *words, holds_machine=True))
        with recording(recorder, disk / "trace"):
            if begins == "after":
                vmm = until_ended.enter_context(writer(disk / "image", *words, holds_machine=True))
            vmm.write()
        facts = read_trace(disk / "trace").facts
        pid = vmm.process.pid
    assert facts.throttled.get(pid) == (name if limited else None)
    assert facts.vmms.get(pid) == name


def test_where_threads_may_run_is_known(recorder: Path, disk: Path) -> None:
    """As it was when the recording began, and when it ended."""
    every, one = sorted(os.sched_getaffinity(0)), min(os.sched_getaffinity(0))
    with writer(disk / "image", holds_machine=True) as vmm:
        pid = vmm.process.pid
        before = Path(f"/proc/{pid}/status").read_text().split("Cpus_allowed_list:\t")[1]
        with recording(recorder, disk / "trace"):
            os.sched_setaffinity(pid, [one])
            vmm.write()
        os.sched_setaffinity(pid, every)
    told = read_trace(disk / "trace").facts.affinity[pid]
    assert told == ((before.split("\n")[0], str(one)) if len(every) > 1 else (str(one),))
    assert os.getpid() not in read_trace(disk / "trace").facts.affinity


def test_machines_are_told_apart_by_name(recorder: Path, disk: Path) -> None:
    """Nothing but the host is recorded: each write and each sync is one of its machine's."""
    with ExitStack() as until_ended:
        vmms = [
            until_ended.enter_context(writer(disk / name, "-name", name, holds_machine=True))
            for name in ("twin-1", "twin-2")
        ]
        with recording(recorder, disk / "trace"):
            for vmm in vmms:
                vmm.write()
    summary = summarise(analyse(open_recording(disk / "trace")), "vm")
    found = {group.name: group.count for group in summary.groups}
    assert (found["twin-1"], found["twin-2"]) == (2 * WRITES, 2 * WRITES)


def test_an_image_that_is_not_raw_is_known(recorder: Path, disk: Path) -> None:
    """By the very file that its writes are to."""
    image = disk / "image"
    image.write_bytes(b"QFI\xfb".ljust(4096 * WRITES, b"\0"))
    with writer(image, holds_machine=True) as vmm, recording(recorder, disk / "trace"):
        vmm.write()
    trace = read_trace(disk / "trace")
    status = image.stat()
    file = os.major(status.st_dev) << 20 | os.minor(status.st_dev), status.st_ino
    assert trace.facts.images.get(file) == "qcow2"
    assert file in image_files_of(trace).values()
