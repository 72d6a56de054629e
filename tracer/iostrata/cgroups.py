# SPDX-License-Identifier: Apache-2.0
"""A cgroup's path in, the container and the virtual machine that it is of out.

Only paths are read: who names cgroups, and how, stands in the patterns below. What none
of them knows is no container, and keeps its path.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

MOST_KEPT: Final = 1024
"""Of so many paths what is in them is kept: the same few are asked for again and again."""
NOT_KNOWN: Final = "unknown"
"""In place of a path."""
SHORT: Final = 12
"""How much of a container's number its engine shows itself."""

# A container: what made it, and its number; each as a part of the path by itself.
_NUMBERED: Final = (
    re.compile(
        r"(?P<engine>docker|libpod|cri-containerd|crio|nerdctl)-(?P<id>[0-9a-f]{64})\.scope"
    ),
    re.compile(r"(?P<id>[0-9a-f]{64})"),
)
_ENGINES: Final = {"libpod": "podman", "cri-containerd": "containerd", "crio": "cri-o"}
_ABOVE: Final = {
    "docker": "docker",
    "ecs": "ecs",
    "k8s.io": "containerd",
    "moby": "docker",
    "libpod_parent": "podman",
}
# A container or a machine that has a name of its own.
_NAMED: Final = (
    ("lxc", re.compile(r"lxc\.payload\.(?P<name>.+)")),
    ("nspawn", re.compile(r"systemd-nspawn@(?P<name>.+)\.service")),
)
_LIBVIRT: Final = (
    re.compile(r"machine-qemu-\d+-(?P<name>.+)\.scope"),
    re.compile(r"qemu-\d+-(?P<name>.+)\.libvirt-qemu"),
    re.compile(r"(?P<name>.+)\.libvirt-qemu"),
)
_PROXMOX: Final = re.compile(r"(?P<scope>(?:.*/)?qemu\.slice/(?P<name>\d+)\.scope)(?:/.*)?")
_LIBVIRT_LXC: Final = re.compile(r"machine-lxc-\d+-(?P<name>.+)\.scope")
_ESCAPED: Final = re.compile(r"\\x([0-9a-f]{2})")


def container_of(path: str) -> str:
    """``docker 3f2a91bc77de``, ``lxc db``; empty: of no container that is known by its path.

    Of nested ones the outermost: that is what this machine started. Of ``NOT_KNOWN`` it is that.
    """
    if path == NOT_KNOWN:
        return path
    parts = _parts(path)
    for number, part in enumerate(parts):
        for kind, pattern in _NAMED:
            if match := pattern.fullmatch(part):
                return f"{kind} {match['name']}"
        if match := _LIBVIRT_LXC.fullmatch(part):
            return f"lxc {match['name']}"
        for pattern in _NUMBERED:
            if match := pattern.fullmatch(part):
                engine = match.groupdict().get("engine") or _engine_above(parts[:number])
                return f"{_ENGINES.get(engine, engine)} {match['id'][:SHORT]}"
    return ""


def virtual_machine_of(path: str) -> str:
    """``db1``, the machine that libvirt or Proxmox runs in this cgroup; empty: none known."""
    return _machine_in(path)[0]


def machines_own(path: str) -> str:
    """Of a cgroup within such a machine's, as each of its virtual CPUs has one, the machine's."""
    return _machine_in(path)[1]


@lru_cache(maxsize=MOST_KEPT)
def _machine_in(path: str) -> tuple[str, str]:
    """The machine's name, and the path of its cgroup; that of any other cgroup is its own."""
    if match := _PROXMOX.fullmatch(path):
        return match["name"], match["scope"]
    for number, part in enumerate(_parts(path)):
        for pattern in _LIBVIRT:
            if match := pattern.fullmatch(part):
                return match["name"], "/".join(path.split("/")[: number + 1])
    return "", path


def _parts(path: str) -> list[str]:
    """As systemd escapes them: ``machine-qemu\\x2d1\\x2ddb.scope``."""
    return [_ESCAPED.sub(_letter, one) for one in path.split("/")]


def _letter(escape: re.Match[str]) -> str:
    """What is none stays escaped: a terminal would obey it."""
    letter = chr(int(escape[1], 16))
    return letter if letter.isprintable() else escape[0]


def _engine_above(parts: list[str]) -> str:
    for part in reversed(parts):
        if part in _ABOVE:
            return _ABOVE[part]
        if part.startswith("kubepods"):
            return "kubernetes"
    return "container"
