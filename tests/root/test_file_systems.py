# SPDX-License-Identifier: Apache-2.0
"""What file systems are met, though no mount table that is recorded has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.analysis.left_out import IN_MEMORY
from iostrata.recording import open_recording
from tests.root.conftest import iostrata
from tests.root.test_record import good

WRITER = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for number in range(int(sys.argv[2])):
    os.pwrite(file, bytes(8192), number * 8192)
    os.fdatasync(file)
"""
MEMFD = """
import os
file = os.memfd_create("data")
for number in range(7):
    os.pwrite(file, bytes(8192), number * 8192)
    os.fdatasync(file)
"""
LAYERS = "lowerdir=lower,upperdir=upper,workdir=work"


def recorded(disk: Path, script: str) -> Path:
    for name in ("place", "lower", "upper", "work"):
        (disk / name).mkdir()
    write = f"{sys.executable} -c '{WRITER}' place/data"
    command = ["unshare", "--mount", "sh", "-ec", script.replace("WRITE", write)]
    out = disk / "recording"
    done = iostrata("record", "--quiet", "-o", str(out), "--", *command, cwd=disk)
    if "mount" in done.stderr:
        pytest.skip(done.stderr)
    good(done.returncode, done.stderr)
    return out


def test_what_is_mounted_out_of_sight(disk: Path) -> None:
    """In a namespace of its own, and under a number that is used again at once."""
    script = f"""
    mount -t tmpfs none place; WRITE 30; umount place
    mount -t overlay -o {LAYERS} none place; WRITE 20; umount place
    mount -t tmpfs none place; WRITE 10; umount place
    {sys.executable} -c '{MEMFD}'
    """
    found = analyse(open_recording(recorded(disk, script)))
    assert found.left_out == {IN_MEMORY: 47}
    assert len(found.writes) == 20
    (name,) = found.writes.names["file_system"]
    assert name.startswith("overlay (")


def test_overlays_that_are_one_number_one_after_the_other(disk: Path) -> None:
    """Of each it is known where it wrote to: on the disk, or in memory."""
    other = "lowerdir=lower,upperdir=other/upper,workdir=other/work"
    script = f"""
    mkdir other; mount -t tmpfs none other; mkdir other/upper other/work
    mount -t overlay -o {LAYERS} none place; WRITE 20; umount place
    mount -t overlay -o {other} none place; WRITE 10; umount place
    mount -t overlay -o {LAYERS} none place; WRITE 5; umount place
    """
    found = analyse(open_recording(recorded(disk, script)))
    assert found.left_out == {IN_MEMORY: 10}
    assert len(found.writes) == 25
    (name,) = found.writes.names["file_system"]
    assert name.startswith("overlay (")
    assert "tmpfs" not in name


def test_disks_that_are_one_number_one_after_the_other(disk: Path) -> None:
    """Of each it is known which disk is below."""
    for name in ("first", "second"):
        with (disk / name).open("wb") as image:
            image.truncate(200 << 20)
        made = subprocess.run(
            ["mkfs.btrfs", "-q", name], cwd=disk, capture_output=True, text=True, check=False
        )
        if made.returncode:
            pytest.skip(made.stderr)
    one = "mount -o loop {} place; WRITE 20; umount place\n"
    found = analyse(open_recording(recorded(disk, one.format("first") + one.format("second"))))
    assert len(found.writes) == 40
    device = [row for row, layer in enumerate(found.layers) if layer.segment == "device"]
    assert (found.time_ns[device].sum(axis=0) > 0).all()
