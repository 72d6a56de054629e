# SPDX-License-Identifier: Apache-2.0
"""A neighbour in another control group, on the same CPU and disk: named, on this kernel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iostrata.trace import read_trace
from tests.root.conftest import iostrata, remove_group
from tests.root.test_record import good

CPU = max(os.sched_getaffinity(0))
NAMED = 0.95

# No longer than it must: each may take a second where others want this disk as well.
WRITER = """
import os, sys, time
from pathlib import Path
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.pwrite(fd, bytes(1 << 20), 0)
os.fsync(fd)
begun = Path(sys.argv[1] + ".begun")
begun.touch()
until = time.monotonic() + 20
for number in range(int(sys.argv[2])):
    os.pwrite(fd, bytes(4096), number % 256 * 4096)
    os.fdatasync(fd)
    if time.monotonic() > until and number > 40:
        break
begun.unlink()
"""
# 4 ms on, 4 ms off.
HOG = """
import time
while True:
    until = time.monotonic() + 0.004
    while time.monotonic() < until:
        pass
    time.sleep(0.004)
"""
# Much data at a time, past the page cache, while the writer writes: programs that are not in the
# cache yet, such as the one that records it, may take minutes to be read beside that.
STREAM = """
import mmap, os, sys, time
from itertools import cycle
begun = sys.argv[1] + ".begun"
fd = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
data = mmap.mmap(-1, 1 << 20)
while not os.path.exists(begun):
    time.sleep(0.001)
for place in cycle(range(32)):
    if not os.path.exists(begun):
        break
    os.pwrite(fd, data, place << 20)
"""


def hierarchy() -> Path:
    """Where version 2 of control groups is."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup2 " in line:
            return Path(line.split()[4])
    pytest.skip("control groups of version 2 are not mounted")


@pytest.fixture
def noisy() -> Iterator[Path]:
    group = hierarchy() / f"iostrata-noisy-{os.getpid()}"
    group.mkdir()
    yield group
    remove_group(group)


def neighbour(group: Path, *command: str) -> subprocess.Popen[bytes]:
    """A process that is in the group before it begins."""
    join = f'echo $$ > {group}/cgroup.procs; exec "$@"'
    found = subprocess.Popen(["sh", "-c", join, "sh", *command])
    while str(found.pid) not in (group / "cgroup.procs").read_text().split():
        time.sleep(0.01)
    return found


def recorded(directory: Path, *before: str, writes: int) -> dict[str, Any]:
    recording = f"{directory}-recording"
    writer = (sys.executable, "-c", WRITER, str(directory / "file"), str(writes))
    done = iostrata(
        "run", "--who", "-o", recording, "--force", "--json", "-", "--", *before, *writer
    )
    good(done.returncode, done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def parts(document: dict[str, Any], *rows: str) -> dict[str, float]:
    """ns a write by control group or else process, of some rows together; they add up to them."""
    found: dict[str, float] = {}
    for row in document["layers"]:
        if row["layer"] in rows:
            # Each is rounded to a thousandth.
            total = sum(part["mean_ns"] for part in row["behind"])
            assert total == pytest.approx(row["mean_ns"], abs=0.01)
            for part in row["behind"]:
                name = part.get("cgroup", "/").strip("/") or part["process"]
                found[name] = found.get(name, 0.0) + part["mean_ns"]
    return found


def test_who_had_the_cpu(disk: Path, noisy: Path) -> None:
    if not shutil.which("chrt"):
        pytest.skip("chrt is not installed")
    # Ordinary threads of this machine have nothing to say on that CPU: the wait is the hog's.
    pin = ("taskset", "-c", str(CPU), "chrt", "-f")
    hog = neighbour(noisy, *pin, "3", sys.executable, "-c", HOG)
    try:
        found = parts(recorded(disk, *pin, "2", writes=1500), "wakeup.runqueue")
    finally:
        hog.kill()
        hog.wait()
    # On a busy machine ordinary threads get a twentieth of a CPU all the same, since Linux
    # 557a6bfc662c (in v6.8): that is none of the hog's.
    others = set(found) - {noisy.name, "unknown"}
    injected = sum(found.values()) - sum(found[name] for name in others)
    assert injected > 20_000
    assert found[noisy.name] >= NAMED * injected, found
    # Nor is what a hypervisor takes to wake a CPU that was idle.
    awake = sum(found.values()) - found.get("idle", 0.0)
    assert found[noisy.name] > 0.8 * awake, found


def test_whose_requests_were_ahead(disk: Path, noisy: Path) -> None:
    # It has the disk only as often as it has a CPU; and real-time threads' requests would go before
    # all others (task_nice_ioclass), which mq-deadline then lets wait for 10 s (prio_aging_expire).
    first = ("ionice", "-c", "2", "chrt", "-f", "1") if shutil.which("chrt") else ()
    files = str(disk / "file"), str(disk / "stream")
    stream = neighbour(noisy, *first, sys.executable, "-c", STREAM, *files)
    while not (disk / "stream").exists():
        time.sleep(0.01)
    try:
        document = recorded(disk, writes=500)
    finally:
        stream.kill()
        stream.wait()
    rows = [row["layer"] for row in document["layers"] if row["layer"].startswith("device.")]
    found = parts(document, *rows)
    # How much depends on who else uses this disk: that is held on one of known service time.
    assert found[noisy.name] > 0, found
    assert found.get("unknown", 0.0) < 0.02 * sum(found.values())


def test_the_table_names_them(disk: Path, noisy: Path) -> None:
    hog = neighbour(noisy, "taskset", "-c", str(CPU), sys.executable, "-c", HOG)
    try:
        recorded(disk, "taskset", "-c", str(CPU), writes=300)
    finally:
        hog.kill()
        hog.wait()
    shown = iostrata("replay", f"{disk}-recording", "--who").stdout
    assert f" in /{noisy.name}" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert f" in /{noisy.name}\n" not in iostrata("replay", f"{disk}-recording").stdout


@pytest.mark.parametrize("options", [(), ("--who",)])
def test_what_it_takes_is_not_attached_without(
    options: tuple[str, ...], recorder: Path, tmp_path: Path
) -> None:
    """Each thread that is moved between CPUs, anybody's, would hit it."""
    command = [str(recorder), *options, "-o", str(tmp_path / "trace"), "--", "true"]
    subprocess.run(command, check=True, capture_output=True)
    told = read_trace(tmp_path / "trace").points["probe"]["program"].tolist()
    programs = {bytes(name).rstrip(b"\0").decode() for name in told}
    assert "wakeup_switch" in programs
    assert ("wakeup_migrate" in programs) == bool(options)
