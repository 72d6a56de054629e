# SPDX-License-Identifier: Apache-2.0
"""Lab stage: programs of this machine in, an image of a root that can run them out.

A machine shares the root of the one that runs it, but a machine nested in it
cannot share it once more: it gets the few programs that it needs.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from iostrata.lab.cache import cache, locked
from iostrata.lab.packages import files_of
from iostrata.lab.tools import PATH, find_tool, run_tool

# Of the lab itself and of the stack's steps there.
NEEDED: Final = (
    *("sh", "bash", "grep", "sed", "tar", "find", "xargs", "mkfs.ext4", "fio", "ip", "ps", "kill"),
    *("mount", "umount", "mountpoint", "setsid", "dmesg"),
    # coreutils
    *("base64", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "df", "dirname"),
    *("du", "echo", "env", "false", "head", "id", "ln", "ls", "mkdir", "mkfifo", "mktemp", "mv"),
    *("nproc", "od", "printf", "pwd", "readlink", "rm", "rmdir", "seq", "sha256sum", "sleep"),
    *("sort", "stat", "sync", "tail", "tee", "test", "timeout", "touch", "tr", "true"),
    *("truncate", "uname", "wc"),
)
# If this machine has them.
WELCOME: Final = ("pg_test_fsync", "mkfs.xfs", "mkfs.btrfs", "strace")
WELCOME_PATH: Final = os.pathsep.join((PATH, *map(str, Path("/usr/lib/postgresql").glob("*/bin"))))
FILES: Final = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/ld.so.cache",
                "/etc/mke2fs.conf")  # fmt: skip
DIRECTORIES: Final = ("proc", "sys", "dev", "run", "tmp", "root", "mnt", "etc", "lab", "var/tmp")
SPARE_BYTES: Final = 16 << 20


def root_image(target: Path, packages: Sequence[str], unpacked: Path | None) -> None:
    """An ext4 image at ``target``, from the cache if the same files were put into one before.

    It is a link, so that another lab, for which another image is made, cannot remove it.
    ``packages``: that it must have; those that this machine lacks are in ``unpacked``.
    """
    files = _files(packages, unpacked)
    image = cache() / "roots" / f"{_content(files)}.img"
    with locked():
        if not image.exists():
            image.parent.mkdir(parents=True, exist_ok=True)
            _make(files, image)
        target.hardlink_to(image)


def _files(packages: Sequence[str], unpacked: Path | None) -> dict[str, Path]:
    """By the path that each gets: programs, the libraries that they need, and settings."""
    programs = [find_tool(name) for name in NEEDED]
    programs += filter(None, (shutil.which(name, path=WELCOME_PATH) for name in WELCOME))
    programs += [str(path) for name in packages for path in files_of(name)]
    added: dict[str, Path] = {}
    if unpacked:
        found = (path for path in unpacked.rglob("*") if path.is_file())
        added = {f"/{path.relative_to(unpacked)}": path for path in found}
        programs += [str(path) for place, path in added.items() if "/share/" not in place]
    libraries = _libraries(programs, unpacked)
    kept = (path for path in (*programs, *libraries) if Path(path) not in {*added.values()})
    paths = [*kept, *(name for name in FILES if Path(name).exists())]
    return {_place(path): Path(path) for path in paths} | added


def _place(path: str) -> str:
    """/bin, /sbin, /lib and /lib64 are links there, as they are here."""
    return re.sub(r"^/(s?bin|lib\w*)/", r"/usr/\1/", path)


def _libraries(programs: Iterable[str], unpacked: Path | None) -> set[str]:
    """ldd fails for scripts and for what is linked statically, which need none."""
    places = sorted({str(path.parent) for path in unpacked.rglob("lib*.so.*")} if unpacked else ())
    said = subprocess.run(
        ["ldd", *programs],
        env={**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return set(re.findall(r"(?:=> |^\t)(/\S+) \(0x", said, re.MULTILINE))


def _content(files: dict[str, Path]) -> str:
    states = ((place, path.stat()) for place, path in sorted(files.items()))
    text = "".join(f"{place} {state.st_size} {state.st_mtime_ns}\n" for place, state in states)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _make(files: dict[str, Path], image: Path) -> None:
    with tempfile.TemporaryDirectory(dir=image.parent) as place:
        root = Path(place) / "root"
        for directory in (*DIRECTORIES, "usr/bin", "usr/sbin", "usr/lib", "usr/lib64"):
            (root / directory).mkdir(parents=True, exist_ok=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        for target, source in files.items():
            copy = root / target.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
        size_bytes = sum(path.stat().st_size for path in files.values()) * 5 // 4 + SPARE_BYTES
        made = Path(place) / image.name
        run_tool("mkfs.ext4", "-q", "-d", str(root), "-O", "^has_journal", str(made),
                 f"{size_bytes >> 10}k", what="the root of nested machines")  # fmt: skip
        for outdated in image.parent.glob("*.img"):
            outdated.unlink()
        made.rename(image)
