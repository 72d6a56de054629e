# SPDX-License-Identifier: Apache-2.0
"""What a file system has on another disk than its own, where --device names one of the two."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from tests.root.conftest import loop_device
from tests.root.test_aio import compiled
from tests.root.test_record import writer

WRITES: Final = 20
FOUND_S: Final = 1.0
BYTES: Final = 320 << 20
REALTIME: Final = ["-d", "rtinherit=1", "-m", "reflink=0,rmapbt=0", "-r"]


@dataclass(frozen=True)
class Disks:
    data: str
    other: str
    mounted: Path
    mount: list[str]


@pytest.fixture
def disks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disks]:
    """A file system of a kind, with its log, journal or files on the other disk."""
    kind = request.param
    if not shutil.which(f"mkfs.{kind.split()[0]}"):
        pytest.skip(f"there is no mkfs for {kind}")
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    with ExitStack() as teardown:
        data, other = (loop_device(tmp_path / name, BYTES, teardown) for name in ("data", "other"))
        option = {"ext4 journal": "", "xfs log": f"logdev={other}", "xfs files": f"rtdev={other}"}
        commands = {
            "ext4 journal": [
                ["mke2fs", "-q", "-O", "journal_dev", "-b", "4096", other],
                ["mkfs.ext4", "-q", "-b", "4096", "-J", f"device={other}", data],
            ],
            "xfs log": [["mkfs.xfs", "-q", "-f", "-l", option["xfs log"], data]],
            "xfs files": [["mkfs.xfs", "-q", "-f", *REALTIME, option["xfs files"], data]],
            "btrfs": [["mkfs.btrfs", "-q", "-f", "-d", "single", "-m", "raid1", data, other]],
        }
        for command in commands[kind]:
            subprocess.run(command, check=True)
        mount = ["mount", "-o", option.get(kind) or "rw", data, str(mounted)]
        told = subprocess.run(mount, check=False, capture_output=True, text=True)
        if told.returncode:
            pytest.skip(f"this kernel does not mount it: {told.stderr.strip()}")
        teardown.callback(subprocess.run, ["umount", str(mounted)], check=True)
        yield Disks(data, other, mounted, mount)


@pytest.mark.parametrize(
    ("disks", "named", "row"),
    [
        ("ext4 journal", "data", "device.journal"),
        ("xfs log", "data", "device.journal"),
        ("xfs log", "other", "device.journal"),
        ("xfs files", "data", "device.data"),
        ("xfs files", "other", "device.data"),
    ],
    indirect=["disks"],
)
def test_it_is_recorded_whichever_of_its_disks_is_named(
    disks: Disks, named: str, row: str, recorder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "recording"
    words = [str(recorder), "-o", str(out), "--device", getattr(disks, named), "--"]
    subprocess.run([*words, *writer("fsync", WRITES)], cwd=disks.mounted, check=True)
    found = analyse(open_recording(out))
    (took,) = (t for layer, t in zip(found.layers, found.time_ns, strict=True) if layer.name == row)
    assert len(found.writes) == WRITES
    assert (took > 0).sum() > WRITES * 0.9


@pytest.mark.parametrize(
    ("disks", "meanwhile"),
    [("ext4 journal", False), ("xfs log", False), ("btrfs", False), ("xfs log", True)],
    indirect=["disks"],
)
def test_it_is_recorded_where_only_the_kernel_writes_to_it(
    disks: Disks, meanwhile: bool, recorder: Path, tmp_path: Path
) -> None:
    """Nobody who is recorded ever does, as a worker does all that they ask for; mounted before, or
    while it is recorded."""
    out, file, go = tmp_path / "recording", disks.mounted / "file", tmp_path / "go"
    os.mkfifo(go)
    command = f"read _ < {go}; exec {compiled('by_worker', tmp_path)} {file} {WRITES}"
    if meanwhile:
        subprocess.run(["umount", str(disks.mounted)], check=True)
    with subprocess.Popen([str(recorder), "-o", str(out), "--", "sh", "-c", command]) as running:
        # Who reads is there when it is recorded.
        with go.open("w") as begun:
            if meanwhile:
                subprocess.run(disks.mount, check=True)
                time.sleep(FOUND_S)
            begun.write("\n")
        assert running.wait() == 0
    recording = open_recording(out)
    (trace,) = recording.traces()
    written = trace.points["block_bio_queue"].integers("dev")["dev"]
    for disk in (disks.data, disks.other):
        number = Path(disk).stat().st_rdev
        assert (written == os.major(number) << 20 | os.minor(number)).sum() >= WRITES * 0.9, disk
    found = analyse(recording)
    assert len(found.writes) == WRITES
    assert found.residual_ns.sum() < 0.2 * found.writes.latency_ns.sum()
