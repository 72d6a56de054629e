# SPDX-License-Identifier: Apache-2.0
"""What looks at loop devices' workers is attached only where there are some."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.columns import integers
from iostrata.model import Quality
from iostrata.record.recorder import find_recorder
from iostrata.recording import open_recording
from iostrata.trace.read import read_trace

# Sets a loop device up, and makes what it writes there durable; the first looks come too late.
WRITER = """
import os, subprocess, sys, time
made = subprocess.run(["losetup", "--find", "--show", sys.argv[1]], capture_output=True, text=True)
if made.returncode:
    sys.exit(made.stderr)
loop = made.stdout.strip()
try:
    file = os.open(loop, os.O_RDWR)
    for number in range(40):
        os.pwrite(file, bytes(4096), number * 4096)
        os.fsync(file)
        time.sleep(0.02)
    os.close(file)
finally:
    subprocess.run(["losetup", "--detach", loop], check=True)
"""


def recorded(recording: Path, *command: object) -> subprocess.CompletedProcess[str]:
    words = [find_recorder(), "-o", recording, "--stats", "--", *command]
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=120
    )


def hits_of(recording: Path, program: str) -> int:
    """So often it was run, by the kernel's own account."""
    costs = read_trace(recording).points["cost"]
    of_program = costs["program"].astype("S24") == program.encode()
    return int(integers(costs["run_count"])[of_program].max())


def quality_of(recording: Path) -> Quality:
    return analyse(open_recording(recording)).quality


def test_one_that_is_there_when_it_ends(disk: Path) -> None:
    """What its file is on is known then, and followed."""
    image = disk / "image"
    image.write_bytes(bytes(1 << 20))
    found = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"no loop device: {found.stderr.strip()}")
    loop = found.stdout.strip()
    script = "losetup $0 $1 && dd if=/dev/zero of=$0 bs=4k count=40 oflag=dsync status=none"
    try:
        done = recorded(disk / "recording", "sh", "-c", script, loop, image)
    finally:
        subprocess.run(["losetup", "--detach", loop], check=False)
    assert done.returncode == 0, done.stderr
    blocks = read_trace(disk / "recording").facts.blocks.values()
    (block,) = (block for block in blocks if block.name == Path(loop).name)
    assert (block.backing, block.backing_inode) == (str(image), image.stat().st_ino)
    assert not [gap for gap in quality_of(disk / "recording").not_observed if "below" in gap.layer]


# What becomes of a loop device's file while it is written to, each time 40 blocks.
MOVES = {
    "another": ("losetup -d $0; losetup $0 other", True),
    "another-that-is-deleted": ("losetup -d $0; losetup $0 other; rm other", True),
    "another-in-between": ("losetup -d $0; losetup $0 other; fill; losetup -d $0", True),
    "the-same": ("mv image moved; rm moved", False),
    "none": ("losetup -d $0", False),
}
FILL = "fill() { dd if=/dev/zero of=$0 bs=4k count=40 oflag=dsync status=none; }\nfill\n"


@pytest.mark.parametrize(("move", "said"), MOVES.values(), ids=MOVES)
def test_one_that_has_another_file_while_it_records(move: str, said: bool, disk: Path) -> None:
    """Its first one's disk is not that of all its writes; a file without a name is still there."""
    for name in ("image", "other"):
        (disk / name).write_bytes(bytes(1 << 20))
    inode = (disk / "image").stat().st_ino
    made = subprocess.run(
        ["losetup", "--find", "--show", disk / "image"], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    loop = made.stdout.strip()
    try:
        script = f"set -e; cd {disk}\n{FILL}{move}; ! losetup $0 2>/dev/null || fill"
        done = recorded(disk / "recording", "sh", "-c", script, loop)
    finally:
        subprocess.run(["losetup", "--detach", loop], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    blocks = read_trace(disk / "recording").facts.blocks.values()
    (block,) = (block for block in blocks if block.name == Path(loop).name)
    assert block.backing_inode == (None if said else inode)
    told = [gap for gap in quality_of(disk / "recording").not_observed if "below" in gap.layer]
    assert [gap.layer for gap in told] == [f"below {block.name}"] * said


ZRAM = Path("/sys/class/zram-control")
HOT = """
set -e
add() {
    number=$(cat $0/hot_add)
    trap 'echo $number >$0/hot_remove' EXIT
    echo 8M >/sys/block/zram$number/disksize
    dd if=/dev/zero of=/dev/zram$number bs=4k count=20 oflag=dsync status=none
    sleep 2
}
add
echo $number >$0/hot_remove
add
"""


def test_a_disk_that_another_one_takes_the_number_of(disk: Path) -> None:
    """As with one that is pulled out, and another that is plugged in."""
    if not ZRAM.exists():
        pytest.skip("no disk can be made here that is none of a file")
    done = recorded(disk / "recording", "sh", "-c", HOT, ZRAM)
    assert done.returncode == 0, done.stderr
    (block,) = (
        block for block in read_trace(disk / "recording").facts.blocks.values() if block.shared
    )
    told = [gap.layer for gap in quality_of(disk / "recording").not_observed]
    assert f"which disk is {block.name}" in told


def test_without_one_nothing_looks(tmp_path: Path) -> None:
    done = recorded(tmp_path / "recording", "sleep", "1.5")
    assert done.returncode == 0, done.stderr
    if any(block.backing for block in read_trace(tmp_path / "recording").facts.blocks.values()):
        pytest.skip("there was a loop device")
    assert hits_of(tmp_path / "recording", "wakeup_switch") > 0
    assert hits_of(tmp_path / "recording", "loop_work_start") == 0


def test_nothing_looks_at_one_that_nobody_can_write_to(disk: Path) -> None:
    image = disk / "image"
    image.write_bytes(bytes(1 << 20))
    if any(Path("/sys/class/block").glob("loop*/loop")):
        pytest.skip("there is a loop device")
    attach = ["losetup", "--find", "--show", "--read-only", str(image)]
    made = subprocess.run(attach, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    try:
        done = recorded(disk / "recording", "sleep", "1.5")
    finally:
        subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)
    assert done.returncode == 0, done.stderr
    assert hits_of(disk / "recording", "wakeup_switch") > 0
    assert hits_of(disk / "recording", "loop_work_start") == 0


def test_one_that_is_set_up_while_it_records(disk: Path) -> None:
    """In nearly all of its last syncs a worker begins; the kernel may hide a point."""
    if "loop_workfn" not in Path("/proc/kallsyms").read_text():
        pytest.skip("this kernel's loop devices have no workers that tell of their work")
    image = disk / "image"
    image.write_bytes(bytes(1 << 20))
    done = recorded(disk / "recording", sys.executable, "-c", WRITER, image)
    if done.returncode and "losetup" in done.stderr:
        pytest.skip(f"no loop device: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    trace = read_trace(disk / "recording")
    (loop,) = trace.points["loop_work"].values("dev")
    assert trace.facts.blocks[loop].backing == str(image)
    assert not [gap for gap in quality_of(disk / "recording").not_observed if "below" in gap.layer]
    work = trace.points["loop_work"].integers("enter_ns", "dev")
    calls = trace.points["syscall"].integers("enter_ns", "dev")
    mine = np.isin(calls["dev"], work["dev"])
    begin, end = calls["enter_ns"][mine][-20:], calls["time_ns"][mine][-20:]
    assert len(begin) == 20
    inside = [
        np.any((work["enter_ns"] > since) & (work["enter_ns"] < until))
        for since, until in zip(begin[1::2], end[1::2], strict=True)
    ]
    assert sum(inside) >= 8


# A device that is made, written to for some seconds, and removed.
PASSING = """
import fcntl, os, subprocess, sys, time
LOOP_CTL_ADD, LOOP_CTL_REMOVE, NUMBER = 0x4C80, 0x4C81, 177
loop = f"/dev/loop{NUMBER}"
control = os.open("/dev/loop-control", os.O_RDWR)
try:
    fcntl.ioctl(control, LOOP_CTL_ADD, NUMBER)
    time.sleep(float(sys.argv[2]))
    subprocess.run(["losetup", loop, sys.argv[1]], check=True)
except (OSError, subprocess.CalledProcessError) as error:
    sys.exit(f"losetup: {error}")
try:
    file = os.open(loop, os.O_RDWR | os.O_DSYNC)
    for number in range(50):
        os.pwrite(file, bytes(4096), number * 4096)
        time.sleep(0.05)
    os.close(file)
finally:
    subprocess.run(["losetup", "--detach", loop], check=True)
    for _ in range(100):  # whoever looks at new disks may have it open
        try:
            fcntl.ioctl(control, LOOP_CTL_REMOVE, NUMBER)
            break
        except OSError:
            time.sleep(0.05)
"""


@pytest.mark.parametrize("empty_s", [0, 0.6])
def test_one_that_comes_and_goes_while_it_records(disk: Path, empty_s: float) -> None:
    """It is gone when the recording ends, and was not there when that began."""
    image = disk / "image"
    image.write_bytes(bytes(1 << 20))
    done = recorded(disk / "recording", sys.executable, "-c", PASSING, image, empty_s)
    if done.returncode and "losetup: " in done.stderr:
        pytest.skip(f"no loop device: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert not Path("/sys/class/block/loop177").exists()
    trace = read_trace(disk / "recording")
    (block,) = (block for block in trace.facts.blocks.values() if block.name == "loop177")
    assert (block.backing, block.backing_inode) == (str(image), image.stat().st_ino)
    assert not [gap for gap in quality_of(disk / "recording").not_observed if "below" in gap.layer]
    # What it lies on is recorded since then: each write is at least one of its own there.
    (lower,) = block.lower_keys
    issued = integers(trace.points["block_rq_issue"]["dev"])
    assert np.count_nonzero(issued == trace.facts.disk_of(lower)) >= 45
