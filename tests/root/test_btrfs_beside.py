# SPDX-License-Identifier: Apache-2.0
"""Who syncs on btrfs waits for others that sync there: for what they do, recorded or not."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from tests.root.conftest import iostrata, loop_device, serve_slowly
from tests.root.test_record import good
from tests.root.test_uring import row

WRITES = 100
# Its own name tells it from who is recorded, and from other programs.
WRITER = """
import ctypes, itertools, os, sys
place, method, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
ctypes.CDLL(None).prctl(15, os.path.basename(place).encode())
flags = os.O_DSYNC if method == "dsync" else 0
file = os.open(place, os.O_RDWR | os.O_CREAT | flags)
for number in range(count) if count else itertools.count():
    os.pwrite(file, os.urandom(8192), number % 64 * 8192)
    if method == "fsync":
        os.fsync(file)
    elif method == "fdatasync":
        os.fdatasync(file)
    elif method == "syncfs":
        ctypes.CDLL(None).syncfs(file)
    if number == 1:
        print(flush=True)
"""
# BTRFS_IOC_SNAP_CREATE of linux/btrfs.h
SNAPSHOTS = """
import fcntl, itertools, os, struct, sys, time
source = os.open(sys.argv[1], os.O_RDONLY)
for number in itertools.count():
    name = struct.pack("<q4088s", source, b"snapshot%d" % number)
    fcntl.ioctl(source, 0x50009401, name)
    if not number:
        print(flush=True)
    time.sleep(0.01)
"""


def mount(loops: list[str], place: Path, teardown: ExitStack) -> Path:
    if not shutil.which("mkfs.btrfs"):
        pytest.skip("mkfs.btrfs is not installed")
    place.mkdir()
    kind = ["-d", "raid1", "-m", "raid1"] if len(loops) > 1 else []
    subprocess.run(["mkfs.btrfs", "-q", "-f", *kind, *loops], check=True, capture_output=True)
    subprocess.run(["mount", loops[0], str(place)], check=True)
    teardown.callback(unmount, place)
    return place


def unmount(place: Path) -> None:
    """What a ring of io_uring had open is closed some time after its program has ended."""
    for _ in range(100):
        if not subprocess.run(["umount", "--quiet", str(place)], check=False).returncode:
            return
        time.sleep(0.05)
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def btrfs(request: pytest.FixtureRequest, disk: Path) -> Iterator[Path]:
    """On so many loop devices."""
    with ExitStack() as teardown:
        loops = [
            loop_device(disk / f"image{number}", 512 << 20, teardown)
            for number in range(getattr(request, "param", 1))
        ]
        yield mount(loops, disk / "mounted", teardown)


def writer(place: Path, method: str, count: int = 0) -> list[str]:
    return [sys.executable, "-c", WRITER, str(place), method, str(count)]


@contextmanager
def running(*commands: list[str]) -> Iterator[None]:
    """Until the end; each is well under way."""
    with ExitStack() as teardown:
        for command in commands:
            one = subprocess.Popen(command, stdout=subprocess.PIPE)
            teardown.enter_context(one)
            teardown.callback(one.kill)
            assert one.stdout
            one.stdout.readline()
        yield


def recorded(place: Path, own: list[str], *options: str) -> Breakdown:
    out = place / "recording"
    done = iostrata("record", "--quiet", *options, "-o", str(out), "--", *own)
    good(done.returncode, done.stderr)
    return analyse(open_recording(out))


def writers(found: Breakdown) -> set[str]:
    """By name; behind those that are alone is their number."""
    return {name.split(" ")[0] for name in found.writes.names["process"]}


def explained(found: Breakdown, most: float = 0.03) -> None:
    """But for what others had begun before the file system was one that is recorded: that ends in
    the first writes."""
    total, left = found.writes.latency_ns[2:], found.residual_ns[2:]
    hidden_ns = sum(sleeps.time_ns for sleeps in found.quality.unseen)
    assert left.sum() - hidden_ns <= most * total.sum()
    assert not found.quality.lost


@pytest.mark.parametrize("others", [1, 4, 12])
def test_of_others_that_sync_there_it_is_known_what_they_did(
    others: int, btrfs: Path, disk: Path
) -> None:
    beside = [writer(btrfs / f"beside{number}", "fsync") for number in range(others)]
    with running(*beside):
        found = recorded(disk, writer(btrfs / "own", "fdatasync", WRITES))
    assert len(found.writes) == WRITES
    explained(found)
    assert (row(found, "lock") > 0).mean() > 0.3
    assert writers(found) == {"own"}


@pytest.mark.parametrize("method", ["dsync", "fdatasync", "syncfs"])
def test_however_they_do(method: str, btrfs: Path, disk: Path) -> None:
    with running(writer(btrfs / "beside", method)):
        explained(recorded(disk, writer(btrfs / "own", "fsync", WRITES)))


@pytest.mark.parametrize("engine", ["libaio", "io_uring"])
def test_and_by_requests(engine: str, btrfs: Path, disk: Path) -> None:
    """libaio's are synced by who submits them, in a call of another kind."""
    place = btrfs / "beside"
    fio = f"echo; exec fio --name=beside --filename={place} --size=16m --ioengine={engine}"
    fio += " --iodepth=4 --direct=1 --sync=dsync --rw=randwrite --bs=4k --time_based --runtime=99"
    with running(["sh", "-c", f"{fio} --thread --output=/dev/null"]):
        while not place.exists() or place.stat().st_blocks * 512 < 1 << 20:
            time.sleep(0.01)
        explained(recorded(disk, writer(btrfs / "own", "fsync", WRITES)))


@pytest.mark.parametrize("btrfs", [2], indirect=True)
def test_on_two_disks(btrfs: Path, disk: Path) -> None:
    with running(writer(btrfs / "beside", "fsync")):
        explained(recorded(disk, writer(btrfs / "own", "fsync", WRITES)))


def test_of_who_makes_snapshots_too(btrfs: Path, disk: Path) -> None:
    with running([sys.executable, "-c", SNAPSHOTS, str(btrfs)]):
        explained(recorded(disk, writer(btrfs / "own", "fsync", WRITES)))


def test_recorded_itself_it_is_the_same(btrfs: Path, disk: Path) -> None:
    with running(writer(btrfs / "beside", "fsync")):
        found = recorded(disk, writer(btrfs / "own", "fsync", WRITES), "--all")
    assert {"own", "beside"} <= writers(found)
    explained(found)


SERVICE_S = 0.01


def test_on_a_slow_disk_it_is_the_disk(disk: Path) -> None:
    """Of which most of any wait is known to be, as it serves one request at a time."""
    with ExitStack() as teardown:
        image = disk / "image"
        with image.open("wb") as file:
            file.truncate(256 << 20)
        subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True, capture_output=True)
        serve_slowly(image, SERVICE_S, teardown)
        attach = ["losetup", "--find", "--show", "--direct-io=on", str(image)]
        loop = subprocess.run(attach, capture_output=True, text=True, check=True).stdout.strip()
        teardown.callback(subprocess.run, ["losetup", "--detach", loop], check=True)
        place = disk / "mounted"
        place.mkdir()
        subprocess.run(["mount", loop, str(place)], check=True)
        teardown.callback(subprocess.run, ["umount", str(place)], check=True)
        with running(writer(place / "beside", "fsync")):
            found = recorded(disk, writer(place / "own", "fsync", 20))
    # In a write of four or five, two requests of the other's are not found to be what it waits for.
    explained(found, most=0.1)
    layers = [layer.name for layer in found.layers]
    below = [name for name in layers if name.startswith(("fuse.", "block.", "device."))]
    spent = sum(row(found, name)[2:].sum() for name in below)
    assert spent > 0.8 * found.writes.latency_ns[2:].sum()


# What it did while the other slept until it let that go, by the scheduler's points.
ORACLE = """
tracepoint:sched:sched_switch /args->next_comm == "BESIDE"/ {
  @on = nsecs; @runs = 1;
}
tracepoint:sched:sched_switch /args->prev_comm == "BESIDE" && @runs/ {
  @cpu += nsecs - @on; @runs = 0;
}
tracepoint:sched:sched_switch /args->prev_comm == "OWN" && args->prev_state == 2/ {
  @asleep = 1; @before = (uint64)@cpu + (@runs ? nsecs - @on : 0);
}
tracepoint:sched:sched_waking /args->comm == "OWN" && @asleep && comm == "BESIDE"/ {
  @ran += (uint64)@cpu + nsecs - @on - (uint64)@before; @waits++;
}
tracepoint:sched:sched_switch /args->next_comm == "OWN"/ { @asleep = 0; }
"""


def test_so_long_as_bpftrace_says_did_it_have_a_cpu(btrfs: Path, disk: Path) -> None:
    if not shutil.which("bpftrace"):
        pytest.skip("bpftrace is not installed")
    # Others may run the same test.
    output, own, beside = disk / "oracle", f"own{os.getpid()}", f"beside{os.getpid()}"
    script = ORACLE.replace("OWN", own).replace("BESIDE", beside)
    with running(writer(btrfs / beside, "fsync")):
        oracle = subprocess.Popen(
            ["bpftrace", "-o", str(output), "-e", script],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while not (output.exists() and "Attach" in output.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(1)
        found = recorded(disk, writer(btrfs / own, "fsync", 3 * WRITES))
        oracle.send_signal(signal.SIGINT)
        oracle.wait()
    saw = dict(re.findall(r"@(\w+): (\d+)", output.read_text()))
    assert int(saw["waits"]) > WRITES
    ours_ns, theirs_ns = row(found, "lock").sum(), int(saw["ran"])
    # Each looks at the clock before or behind the other, which takes some us each time.
    assert abs(ours_ns - theirs_ns) <= 0.1 * theirs_ns + 8_000 * int(saw["waits"])
    assert np.array_equal(found.time_ns.sum(axis=0) + found.residual_ns, found.writes.latency_ns)
