# SPDX-License-Identifier: Apache-2.0
"""Record stage: the facts of this machine that decide what can be observed on it."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SYS: Final = Path("/sys")
MOUNTS: Final = Path("/proc/self/mounts")
MEMORY: Final = ("zram", "ram")


@dataclass(frozen=True)
class Disk:
    """A block device with a size; empty text: sysfs does not say."""

    name: str
    scheduler: str
    write_cache: str
    fua: str
    rotational: str
    stacked_on: tuple[str, ...]


@dataclass(frozen=True)
class System:
    kernel: str
    architecture: str
    cpus: int
    clock_source: str
    lockdown: str
    btf: bool
    debugfs: bool
    disks: tuple[Disk, ...]


def system(sys: Path = SYS) -> System:
    uname = platform.uname()
    return System(
        kernel=uname.release,
        architecture=uname.system,
        cpus=os.cpu_count() or 1,
        clock_source=_text(sys / "devices/system/clocksource/clocksource0/current_clocksource"),
        lockdown=_chosen(_text(sys / "kernel/security/lockdown")),
        btf=(sys / "kernel/btf/vmlinux").exists(),
        debugfs=" debugfs " in _text(MOUNTS),
        disks=tuple(
            _disk(path) for path in sorted((sys / "class/block").glob("*")) if _is_disk(path)
        ),
    )


def _is_disk(path: Path) -> bool:
    """Whole devices that can hold something: no partitions, no unused loop devices."""
    if (path / "partition").exists() or path.name.startswith(MEMORY):
        return False
    return _text(path / "size") not in ("", "0")


def _disk(path: Path) -> Disk:
    queue = path / "queue"
    return Disk(
        name=path.name,
        scheduler=_chosen(_text(queue / "scheduler")),
        write_cache=_text(queue / "write_cache"),
        fua={"0": "no", "1": "yes"}.get(_text(queue / "fua"), ""),
        rotational={"0": "no", "1": "yes"}.get(_text(queue / "rotational"), ""),
        stacked_on=_lower(path),
    )


def _lower(path: Path) -> tuple[str, ...]:
    backing = _text(path / "loop" / "backing_file")
    slaves = sorted(slave.name for slave in (path / "slaves").glob("*"))
    return (backing,) if backing else tuple(slaves)


def _chosen(text: str) -> str:
    """``[mq-deadline] none`` to ``mq-deadline``."""
    found = re.search(r"\[(.*?)\]", text)
    return found[1] if found else text


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
