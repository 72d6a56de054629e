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
            _fetch(lacking, directory)
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


def _fetch(names: Sequence[str], directory: Path) -> None:
    """Unpacks beside ``directory`` and moves there, so that it is complete or absent."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    what = f"fetching {', '.join(names)}"
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".") as place:
        root = Path(place) / "root"
        for name in MERGED:
            (root / "usr" / name).mkdir(parents=True)
            (root / name).symlink_to(f"usr/{name}")
        archive = Archive(Path(place) / "apt", what)
        for package in archive.download_with_needs(names):
            run_tool("bash", "-c", UNPACK, "bash", str(package), str(root), what=what)
        root.rename(directory)
