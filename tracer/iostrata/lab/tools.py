# SPDX-License-Identifier: Apache-2.0
"""Lab stage: the programs of this machine that the lab needs, and the packages they are in."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

from iostrata.errors import LabError

PACKAGES: Final = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-system-aarch64": "qemu-system-arm",
    "busybox": "busybox-static",
    "depmod": "kmod",
    "fio": "fio",
    "mkfs.ext4": "e2fsprogs",
    "ip": "iproute2",
}
ALWAYS: Final = ("busybox", "depmod")
# root's PATH has them, a user's may not.
PATH: Final = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def check_tools(names: Sequence[str]) -> None:
    """LabError, which names the packages, if one of the programs is missing."""
    missing = [name for name in names if not shutil.which(name, path=PATH)]
    if missing:
        packages = " ".join(PACKAGES.get(name, name) for name in missing)
        raise LabError(
            f"the lab needs programs that are not installed: {', '.join(missing)}",
            f"sudo apt-get install {packages}",
        )


def find_tool(name: str) -> str:
    check_tools((name,))
    return shutil.which(name, path=PATH) or name


def run_tool(*command: str, what: str) -> str:
    """Standard output of a program of this machine; LabError, named by ``what``, if it fails."""
    try:
        done = subprocess.run(
            [find_tool(command[0]), *command[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise LabError(f"{what}: {command[0]}: {error.strerror}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise LabError(f"{what}: {command[0]} failed: {said[-1]}")
    return done.stdout
