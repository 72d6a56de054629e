# SPDX-License-Identifier: Apache-2.0
"""Tests on the real kernel: skipped, with the reason, where eBPF is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from iostrata.bench.place import NO_DISK, file_system_of
from iostrata.record import find_recorder, refusal
from tests.started import Started

HERE = Path(__file__).parent
IOSTRATA = (sys.executable, "-m", "iostrata")
LIMIT_S = 400
STARTED = Started()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    refused = refusal()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.root)
            if refused:
                item.add_marker(pytest.mark.skip(reason=refused.why))


LOOP_DEFAULTS = {"write_cache": "write back", "max_sectors_kb": "0", "wbt_lat_usec": "-1"}


@pytest.fixture(scope="session", autouse=True)
def loops_as_new() -> None:
    """What a queue was set to outlives its image: tests that were killed left some behind."""
    for queue in Path("/sys/block").glob("loop*/queue"):
        if (queue.parent / "loop").exists():
            continue  # In use.
        for name, value in LOOP_DEFAULTS.items():
            with suppress(OSError):
                (queue / name).write_text(value)


def set_queue(device: str, name: str, value: str, teardown: ExitStack) -> None:
    """A file of a disk's queue in sysfs, until ``teardown``."""
    file = Path("/sys/class/block", Path(device).name, "queue", name)
    before = file.read_text().strip() if file.exists() else ""
    if not before:
        pytest.skip(f"this kernel's disks have no {name}")
    file.write_text(value)
    teardown.callback(file.write_text, before)


@pytest.fixture(scope="session")
def recorder() -> Path:
    return find_recorder()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A directory on a real disk; tests of writes make no sense on tmpfs."""
    place = tmp_path
    if file_system_of(place) in NO_DISK:
        place = Path("/var/tmp") / f"iostrata-test-{os.getpid()}"
        place.mkdir()
    if file_system_of(place) in NO_DISK:
        pytest.skip("there is no directory on a disk")
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def overlay(disk: Path) -> Iterator[Path]:
    """An overlay whose changes go to an ext4 with a journal, on a loop device."""
    with ExitStack() as mounted:
        for name in ("ext4", "low", "merged"):
            (disk / name).mkdir()
        image, ext4, merged = disk / "image", disk / "ext4", disk / "merged"
        image.touch()
        with image.open("r+b") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)

        def mount(*arguments: str) -> None:
            done = subprocess.run(
                ["mount", *arguments], capture_output=True, text=True, check=False
            )
            if done.returncode:
                pytest.skip(f"no mount {arguments[0]} here: {done.stderr.strip()}")
            mounted.callback(subprocess.run, ["umount", arguments[-1]], check=True)

        mount("-o", "loop", str(image), str(ext4))
        for name in ("upper", "work"):
            (ext4 / name).mkdir()
        options = f"lowerdir={disk / 'low'},upperdir={ext4 / 'upper'},workdir={ext4 / 'work'}"
        mount("-t", "overlay", "overlay", "-o", options, str(merged))
        yield merged


def loop_device(image: Path, size_bytes: int, teardown: ExitStack, *, direct: bool = True) -> str:
    with image.open("wb") as file:
        file.truncate(size_bytes)
    direct_io = f"--direct-io={'on' if direct else 'off'}"
    attach = ["losetup", "--find", "--show", direct_io, str(image)]
    found = subprocess.run(attach, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"no loop device: {found.stderr.strip()}")
    loop = found.stdout.strip()
    teardown.callback(subprocess.run, ["losetup", "--detach", loop], check=True)
    return loop


@pytest.fixture
def file_system(request: pytest.FixtureRequest, disk: Path) -> Iterator[Path]:
    """A directory on the disk itself, or on a file system of its own on a loop device there."""
    kind: str = request.param
    if kind == "disk":
        yield disk
        return
    if not shutil.which(f"mkfs.{kind}"):
        pytest.skip(f"mkfs.{kind} is not installed")
    mounted = disk / "mounted"
    mounted.mkdir()
    with ExitStack() as teardown:
        loop = loop_device(disk / "image", 512 << 20, teardown)
        subprocess.run([f"mkfs.{kind}", "-q", loop], check=True)
        subprocess.run(["mount", loop, str(mounted)], check=True)
        teardown.callback(subprocess.run, ["umount", str(mounted)], check=True)
        yield mounted


def serve_slowly(image: Path, seconds: float, stack: ExitStack, *how: str) -> int:
    """From now on each request to that file takes as long, one at a time (FUSE); its process."""
    first = ("chrt", "-f", "5") if shutil.which("chrt") else ()
    serve = (*first, sys.executable, str(HERE / "slow_file.py"), str(image), str(seconds), *how)
    server = subprocess.Popen(serve, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    stack.enter_context(server)
    assert server.stdin
    assert server.stdout
    stack.callback(server.stdin.close)
    if not server.stdout.readline():
        pytest.skip("no file can be mounted by FUSE here")
    return server.pid


def remove_group(group: Path) -> None:
    """Removes a control group, once those who were in it are gone."""
    for _ in range(200):
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.05)
        else:
            return


@pytest.fixture(scope="session", autouse=True)
def started() -> Iterator[None]:
    yield
    STARTED.end()


def iostrata(
    *arguments: str, cwd: Path | None = None, before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    if not before and STARTED.fits():
        return STARTED.run(arguments, cwd, LIMIT_S)
    return subprocess.run(
        [*before, *IOSTRATA, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
