# SPDX-License-Identifier: Apache-2.0
"""Record stage: a Target in, UsageError out where nothing on this machine can be what it names."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from iostrata.errors import UsageError
from iostrata.record.recorder import Target

PROC: Final = Path("/proc")
CGROUPS: Final = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
"""Where version 2 may be: beside version 1, or alone."""

DEVICES: Final = Path("/sys/dev/block")
MOST_MINORS: Final = 1 << 20

COMM_BYTES: Final = 15


def check_target(target: Target) -> None:
    """Errors: UsageError for what is not there, and for filters that no process meets."""
    chosen = [
        name
        for name, values in (
            ("--pid", target.pids),
            ("--comm", target.comms),
            ("--cgroup", target.cgroups),
        )
        if values
    ]
    if target.everything and chosen:
        raise UsageError(
            f"--all and {chosen[0]} contradict each other: every process, or only some",
            "leave one of them out",
        )
    for pid in target.pids:
        if not (PROC / str(pid)).is_dir():
            raise UsageError(f"--pid {pid}: there is no such process", "ps -e lists them")
    for cgroup in target.cgroups:
        _check_cgroup(cgroup)
    for device in target.devices:
        _check_device(device)
    if target.pids and target.comms:
        _check_names(target)


def _check_cgroup(name: str) -> None:
    below = name
    for root in reversed(CGROUPS):
        below = below.removeprefix(str(root))
    found = [root / below.lstrip("/") for root in CGROUPS]
    if not any((path / "cgroup.controllers").exists() for path in found):
        raise UsageError(
            f"--cgroup {name}: there is no such control group (version 2)",
            "systemd-cgls lists them; /proc/PID/cgroup names a process's",
        )


def _check_device(name: str) -> None:
    if numbers := re.fullmatch(r"([0-9]+):([0-9]+)", name):
        _check_number(name, *map(int, numbers.groups()))
        return
    # A name without a directory is first of all the kernel's own.
    places = [Path(name)] if "/" in name else [Path("/dev") / name, Path(name)]
    for path in places:
        try:
            if stat.S_ISBLK(path.stat().st_mode):
                return
        except OSError:
            continue
    what = "no block device" if any(path.exists() for path in places) else "there is none"
    raise UsageError(
        f"--device {name}: {what}", "give a disk or a partition: /dev/vda, vda1; lsblk lists them"
    )


def _check_number(name: str, major: int, minor: int) -> None:
    """What has no disk, such as a tmpfs, has a number behind 0 that is in no list."""
    known = (DEVICES / f"{major}:{minor}").exists() if major else minor < MOST_MINORS
    if not known:
        raise UsageError(f"--device {name}: there is none", "lsblk lists them")


def _check_names(target: Target) -> None:
    """All kinds of filters must match: a name that nothing below the process has matches none."""
    wanted = {comm.encode()[:COMM_BYTES] for comm in target.comms}
    found = {name for pid in target.pids for name in _names(pid)}
    if not wanted & found:
        raise UsageError(
            f"--pid {_listed(target.pids)} --comm {_listed(target.comms)}: both must match, and "
            "nothing in that process or below it has that name",
            "leave one of them out",
        )


def _names(pid: int) -> Iterator[bytes]:
    """Of all threads of a process, and of those below it."""
    left, seen = [pid], set()
    while left:
        if (one := left.pop()) in seen:
            continue
        seen.add(one)
        for task in _tasks(one):
            try:
                yield (task / "comm").read_bytes().rstrip(b"\n")
                left += map(int, (task / "children").read_text().split())
            except OSError:
                continue


def _tasks(pid: int) -> list[Path]:
    try:
        return list((PROC / str(pid) / "task").iterdir())
    except OSError:
        return []


def _listed(values: tuple[object, ...]) -> str:
    more = " ..." if len(values) > 3 else ""
    return " ".join(str(value) for value in islice(values, 3)) + more
