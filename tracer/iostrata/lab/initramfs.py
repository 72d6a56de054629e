# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a Kernel in, an initramfs out: busybox, modules, init and agent."""

from __future__ import annotations

import lzma
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from iostrata.errors import LabError
from iostrata.lab.kernels import Kernel

HERE: Final = Path(__file__).parent
# What it takes to reach root, ports, disks and links; the root's modprobe loads the rest.
MODULES: Final = (
    "virtio_pci",
    "virtio_console",
    "virtio_blk",
    "virtio_net",
    "9pnet_virtio",
    "9p",
    "overlay",
)
# For a nested machine, whose root is an image with ext4 and has no modules.
NESTED_MODULES: Final = ("crc32c_generic", "crc32c_intel", "ext4")
# Older kernels load them for ext4 by themselves, newer ones have none.
OPTIONAL: Final = ("crc32c_generic", "crc32c_intel")
DIRECTORIES: Final = ("bin", "proc", "sys", "dev", "modules", "lower", "packages", "upper", "root")
TRAILER: Final = "TRAILER!!!"


def initramfs(kernel: Kernel, busybox: Path, more_modules: Iterable[str] = ()) -> bytes:
    """A cpio archive as the kernel takes it. ``more_modules``: with their parameters."""
    words = (module.partition(" ") for module in (*MODULES, *more_modules))
    given = {name.replace("-", "_"): parameters for name, _, parameters in words}
    modules = {path.name.partition(".ko")[0]: path for path in _in_order(kernel, given)}
    files = {f"modules/{name}.ko": _module(path) for name, path in modules.items()}
    lines = (f"{name}.ko {given.get(_module_name(name), '')}\n" for name in modules)
    files["modules/order"] = "".join(lines).encode()
    files["bin/busybox"] = busybox.read_bytes()
    files["init"] = (HERE / "init.sh").read_bytes()
    files["agent"] = (HERE / "agent.sh").read_bytes()
    return archive(DIRECTORIES, files)


def _in_order(kernel: Kernel, names: Iterable[str]) -> list[Path]:
    """The modules and what they need, each after what it needs."""
    directory = kernel.modules / kernel.release
    needs: dict[str, tuple[str, list[str]]] = {}
    for line in (directory / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[_module_name(path)] = path, others.split()
    built_in = {_module_name(path) for path in (directory / "modules.builtin").read_text().split()}
    order: dict[str, None] = {}
    for name in names:
        if name in needs:
            module, needed = needs[name]
            order.update(dict.fromkeys([*reversed(needed), module]))
        elif name not in built_in and name not in OPTIONAL:
            raise LabError(
                f"kernel {kernel.release} has no module {name}, which the lab needs",
                "use another kernel: --kernel",
            )
    return [directory / path for path in order]


def _module_name(path: str) -> str:
    return PurePosixPath(path).name.partition(".ko")[0].replace("-", "_")


def _module(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix != ".ko":
        raise LabError(f"{path} is compressed in a way that the lab does not know")
    return data


def archive(directories: Iterable[str], files: Mapping[str, bytes]) -> bytes:
    """A cpio archive, format newc; every file is executable."""
    entries = [_entry(name, stat.S_IFDIR | 0o755, b"") for name in directories]
    entries += [_entry(name, stat.S_IFREG | 0o755, data) for name, data in files.items()]
    return b"".join([*entries, _entry(TRAILER, 0, b"")])


def _entry(name: str, mode: int, data: bytes) -> bytes:
    path = name.encode() + b"\0"
    # inode, mode, uid, gid, links, mtime, size, device and special numbers, name's length, check
    numbers = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + path
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
