# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a kernel's series in, a Debian kernel unpacked in the cache out."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from iostrata.errors import LabError
from iostrata.lab.archive import Archive
from iostrata.lab.cache import cache, locked
from iostrata.lab.decompress import decompressed
from iostrata.lab.listen import LabListener
from iostrata.lab.tools import run_tool

# The suites of Debian's archive that have them.
SUITES: Final = {
    "5.10": "bullseye",
    "6.1": "bookworm",
    "6.12": "trixie",
    "7.2": "trixie-backports",
}


@dataclass(frozen=True)
class Kernel:
    """``modules``: the directory lib/modules, in which ``release`` is one."""

    series: str
    release: str
    image: Path
    modules: Path


def check_series(series: str) -> None:
    if series not in SUITES:
        raise LabError(
            f"there is no kernel {series} in the lab", f"known kernels: {', '.join(SUITES)}"
        )


def kernel(series: str, listener: LabListener, architecture: str = "amd64") -> Kernel:
    """The newest kernel of that series, from the cache if it was fetched before."""
    check_series(series)
    name = series if architecture == "amd64" else f"{series}-{architecture}"
    directory = cache() / "kernels" / name
    with locked():
        if not directory.is_dir():
            listener.say(f"fetching Debian's kernel {name} into {directory}")
            _fetch(series, architecture, directory)
        return _unpacked(series, directory)


def _unpacked(series: str, directory: Path) -> Kernel:
    modules = directory / "lib" / "modules"
    for release in modules.glob("*"):
        # Where packages put it up to Linux 7.1, and from 7.2 on.
        for image in (directory / "boot" / f"vmlinuz-{release.name}", release / "vmlinuz"):
            if image.is_file():
                return Kernel(series, release.name, decompressed(image), modules)
    raise LabError(f"{directory} holds no kernel", f"rm -r {directory}")


def _fetch(series: str, architecture: str, directory: Path) -> None:
    """Unpacks beside ``directory`` and moves there, so that it is complete or absent."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{series}-") as place:
        what = f"fetching kernel {series}"
        archive = Archive(Path(place), what, SUITES[series], architecture)
        unpacked = Path(place) / "unpacked"
        for package in archive.download(_packages(archive, series, architecture)):
            run_tool("dpkg-deb", "-x", str(package), str(unpacked), what="unpacking the kernel")
        if not (unpacked / "lib").exists():
            (unpacked / "lib").symlink_to("usr/lib")
        release = _unpacked(series, unpacked).release
        run_tool("depmod", "--basedir", str(unpacked), release, what="the kernel's modules")
        shutil.rmtree(unpacked / "usr" / "share", ignore_errors=True)
        unpacked.rename(directory)


def _packages(archive: Archive, series: str, architecture: str) -> list[str]:
    """The image of the newest release, and the packages that newer ones are split into."""
    pattern = (
        rf"^linux-(image|base|binary|modules)-{re.escape(series)}\.[-+.0-9deb]+-{architecture}$"
    )
    names = archive.search(pattern)
    if not names:
        raise LabError(
            f"the Debian archive has no kernel {series} in {archive.suite}",
            "use another kernel: --kernel " + "|".join(SUITES),
        )
    releases = {name.split("-", 2)[2] for name in names}
    newest = max(releases, key=lambda release: [int(part) for part in re.findall(r"\d+", release)])
    return [name for name in names if name.split("-", 2)[2] == newest]
