# SPDX-License-Identifier: Apache-2.0
"""By which names files are written: real ones, laid out as databases do."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from iostrata.columns import integers
from iostrata.record.recorder import find_recorder
from iostrata.trace import read_trace
from tests.root.conftest import iostrata, loop_device
from tests.root.test_devices import device_of
from tests.root.test_record import good
from tests.root.test_units import methods, program, recorded

WAL = "000000010000000000000001"
LAYOUT = """
os.makedirs('pg_wal'), os.makedirs('base/5')
wal, data = opened('pg_wal/000000010000000000000001'), opened('base/5/16384')
for number in range(20):
    os.pwrite(wal, bytes(8192), number * 8192)
    os.fdatasync(wal)
    if number % 4 == 0:
        os.pwrite(data, bytes(8192), number * 8192)
        os.fsync(data)
"""


def by_file(found: dict[str, object]) -> dict[str, int]:
    return {group["name"]: group["writes"] for group in found["groups"]}  # type: ignore[attr-defined]


def replayed(recording: Path, *options: str) -> dict[str, object]:
    done = iostrata("replay", str(recording), "--json", "-", *options)
    good(done.returncode, done.stderr)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_log_against_data(disk: Path) -> None:
    recorded(disk, program(LAYOUT))
    found = replayed(disk / "recording", "--by", "file")
    assert by_file(found) == {f"{disk}/pg_wal/{WAL}": 20, f"{disk}/base/5/16384": 5}
    found = replayed(disk / "recording", "--by", "directory")
    assert by_file(found) == {f"{disk}/pg_wal": 20, f"{disk}/base/5": 5}


def test_a_file_has_the_name_of_its_time(disk: Path) -> None:
    """A log is recycled by renaming it; what is short-lived is gone when the recording ends."""
    recorded(
        disk,
        program(
            "log = opened('log.1', os.O_DSYNC)\n"
            "for number in range(2, 5):\n"
            "    for _ in range(number):\n"
            "        os.write(log, b'x')\n"
            "    os.rename(f'log.{number - 1}', f'log.{number}')\n"
            "os.close(log), os.unlink('log.4')\n"
            "for number in range(6):\n"
            "    short = opened('short' * 10 + str(number))\n"
            "    os.fsync(short), os.close(short)\n"
            "    os.unlink('short' * 10 + str(number))\n"
        ),
    )
    assert by_file(replayed(disk / "recording", "--by", "file")) == {
        **{f"{disk}/log.{number - 1}": number for number in range(2, 5)},
        **{f"{disk}/{'short' * 10}{number}": 1 for number in range(6)},
    }


def test_a_disk_itself(disk: Path) -> None:
    """A device's nodes are files of other file systems: of one device, whichever is used."""
    with ExitStack() as teardown:
        loop = loop_device(disk / "image", 1 << 20, teardown)
        node = disk / "node"
        os.mknod(node, 0o600 | stat.S_IFBLK, Path(loop).stat().st_rdev)
        text = f"""
one, other = opened('{node}'), opened('{loop}')
for number in range(3):
    os.pwrite(one, bytes(4096), number * 4096)
    os.fsync(other)
"""
        found = recorded(disk, program(text))
        assert found.writes.size_bytes.tolist() == [4096] * 3
        assert found.writes.pieces.tolist() == [2] * 3
        names = by_file(replayed(disk / "recording", "--by", "file"))
        assert sum(names.values()) == 3
        assert set(names) <= {loop, str(node)}
        found = recorded(disk, program(text), "--no-names", "--force")
        assert by_file(replayed(disk / "recording", "--by", "file")) == {Path(loop).name: 3}


def test_syncfs_of_a_device_s_node_is_of_the_file_system_that_the_node_is_on(disk: Path) -> None:
    """Not of what is on the device."""
    with ExitStack() as teardown:
        loop = loop_device(disk / "image", 1 << 20, teardown)
        os.mknod(disk / "node", 0o600 | stat.S_IFBLK, Path(loop).stat().st_rdev)
        found = recorded(
            disk,
            program(
                "file, node = opened('file'), opened('node')\n"
                "for number in range(3):\n"
                "    os.pwrite(file, bytes(16384), number * 16384)\n"
                "    libc.syncfs(node)\n"
            ),
        )
    assert methods(found) == {"syncfs": 3}
    assert found.writes.size_bytes.tolist() == [16384] * 3
    assert found.writes.names["device"] == (Path(device_of(disk)).name,)


def test_a_file_that_is_synchronous_by_an_attribute_has_its_name(disk: Path) -> None:
    (disk / "file").touch()
    if subprocess.run(["chattr", "+S", str(disk / "file")], check=False).returncode:
        pytest.skip("the file system has no such attribute")
    recorded(disk, program("file = opened('file')\nos.pwrite(file, bytes(4096), 0)\n"))
    found = replayed(disk / "recording", "--by", "file")
    assert by_file(found) == {f"{disk}/file": 1}


def test_no_names(disk: Path) -> None:
    recorded(disk, program(LAYOUT), "--no-names")
    found = by_file(replayed(disk / "recording", "--by", "file"))
    assert sorted(found.values()) == [5, 20]
    assert not [name for name in found if "/" in name]
    streams = list((disk / "recording" / "local").glob("cpu_*"))
    assert streams
    assert not [file for file in streams if b"pg_wal" in file.read_bytes()]


# The same work at both entries, except for the name, which was told at the first sync.
PAIRS = """
import os
fd = os.open("/dev/shm/data", os.O_RDWR | os.O_CREAT)
os.unlink("/dev/shm/data")
for _ in range(60_000):
    os.pwrite(fd, b"x", 0)
    os.fdatasync(fd)
"""
ROUNDS = 5


def entry_ns(directory: Path) -> dict[str, float]:
    """Of each program at system calls' entries, by the kernel's own account: ns a hit."""
    command = [str(find_recorder()), "-o", str(directory), "--stats", "--",
               sys.executable, "-c", PAIRS]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    costs = read_trace(directory).points["cost"]
    names = [name.decode() for name in costs["program"].astype("S24").tolist()]
    ran_ns, hits = integers(costs["run_ns"]), integers(costs["run_count"])
    return dict(zip(names, (ran_ns / hits.clip(1)).tolist(), strict=True))


def test_a_name_that_was_told_costs_next_to_nothing(tmp_path: Path) -> None:
    """The least of some rounds: what else runs on the machine makes both dearer."""
    ratios = []
    for number in range(ROUNDS):
        cost = entry_ns(tmp_path / str(number))
        ratios.append(cost["syscall_enter_sync"] / cost["syscall_enter_pwrite"])
    assert min(ratios) <= 1.25, ratios


def test_control_groups(disk: Path) -> None:
    """Also of a thread whose requests the kernel's workers submit."""
    root = Path("/sys/fs/cgroup")
    if not (root / "cgroup.procs").exists():
        root = Path("/sys/fs/cgroup/unified")
    group = root / f"iostrata-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no control groups of version 2 can be made")
    try:
        enter = f"open('{group}/cgroup.procs', 'w').write('0')\n"
        recorded(disk, program(enter + LAYOUT))
        found = replayed(disk / "recording", "--by", "cgroup")
        assert by_file(found) == {f"/{group.name}": 25}
    finally:
        group.rmdir()
