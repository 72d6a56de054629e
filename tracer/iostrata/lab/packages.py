# SPDX-License-Identifier: Apache-2.0
"""Lab stage: names of Debian's packages in, a directory with the files that this machine lacks out.

A machine of the lab sees the root of this one: what is installed here need not be fetched.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from iostrata.lab.archive import Archive
from iostrata.lab.cache import cache, locked
from iostrata.lab.listen import LabListener
from iostrata.lab.tools import run_tool

DPKG: Final = Path("/var/lib/dpkg")
# Which are links into /usr in the root of this machine.
MERGED: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# What the lab itself runs on a machine, of a root that has nothing yet.
BASE: Final = (
    *("base-files", "bash", "busybox-static", "coreutils", "dash", "findutils", "grep"),
    *("iproute2", "kmod", "mount", "procps", "sed", "tar", "util-linux"),
)
# dpkg-deb -x makes directories of those links.
UNPACK: Final = (
    'set -o pipefail; dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"'
)


def fetched(names: Sequence[str], listener: LabListener) -> Path | None:
    """What the packages and all that they need put into a root, for that of this machine.

    From the cache, if it was fetched before, and nothing was installed here since. None: they
    are all installed. Errors: LabError.
    """
    status = (DPKG / "status").read_bytes() if (DPKG / "status").exists() else b""
    known = {*installed(status.decode(errors="replace"))}
    lacking = sorted({*names} - known)
    if not lacking:
        return None
    content = hashlib.sha256(" ".join(lacking).encode() + status).hexdigest()[:16]
    directory = cache() / "packages" / content
    with locked():
        if not directory.is_dir():
            listener.say(f"fetching Debian's {', '.join(lacking)} into {directory}")
            unpack(lacking, directory)
    return directory


def fetched_root(architecture: str, names: Sequence[str], listener: LabListener) -> Path:
    """A root of another architecture, with the packages and all that they need.

    From the cache, if it was fetched before. No package is set up in it, which would take running
    its programs. Errors: LabError.
    """
    wanted = sorted({*BASE, *names})
    content = hashlib.sha256(" ".join(wanted).encode()).hexdigest()[:16]
    directory = cache() / "packages" / f"{architecture}-{content}"
    with locked():
        if not directory.is_dir():
            listener.say(f"fetching a root of Debian's {architecture} into {directory}")
            unpack(wanted, directory, architecture)
    return directory


def installed(status: str) -> Iterator[str]:
    """From dpkg's own account."""
    for entry in status.split("\n\n"):
        if re.search(r"^Status: install ok installed$", entry, re.MULTILINE):
            yield from re.findall(r"^Package: (.*)$", entry, re.MULTILINE)


def files_of(name: str) -> list[Path]:
    """Of an installed package, without its documentation."""
    lists = [*(DPKG / "info").glob(f"{name}.list"), *(DPKG / "info").glob(f"{name}:*.list")]
    paths = (Path(line) for found in lists for line in found.read_text().splitlines())
    return [path for path in paths if path.is_file() and "share" not in path.parts]


def unpack(names: Sequence[str], directory: Path, architecture: str = "") -> None:
    """Those packages and what they need. ``architecture``: another one than this machine's.

    Beside ``directory``, and then moved there, so that it is complete or absent. Errors: LabError.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    what = f"fetching {', '.join(names)}"
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".") as place:
        root = Path(place) / "root"
        for name in MERGED:
            (root / "usr" / name).mkdir(parents=True)
            (root / name).symlink_to(f"usr/{name}")
        archive = Archive(Path(place) / "apt", what, architecture=architecture)
        for package in archive.download_with_needs(names):
            run_tool("bash", "-c", UNPACK, "bash", str(package), str(root), what=what)
        root.rename(directory)
