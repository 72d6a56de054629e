# SPDX-License-Identifier: Apache-2.0
"""Pseudonyms: names of files, processes, control groups, hosts in, as many that say nothing out.

The same name has the same pseudonym wherever it is in a recording, and different names have
different ones; which is whose cannot be computed from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

NAME_PART: Final = 27
"""Bytes of a name that an event has room for (``text`` in bpf/events.h, with its end)."""

# Threads that the kernel names, by what they are and their number alone. Nothing tells whether one
# is the kernel's, and anybody may have such a name: so there is no room in these for another word.
KERNEL_THREAD: Final = re.compile(
    rb"kworker/u?\d+:\d+H?|ksoftirqd/\d+|migration/\d+|kswapd\d+|loop\d+|vhost-\d+|nfsd|"
    rb"rcu_(?:preempt|sched|bh|gp|par_gp|tasks_(?:kthre|rude_|trace))|rcu(?:o[gps]|b|c)/\d+|"
    rb"jbd2/(?:[shv]d[a-z]{1,2}|nvme\d+n\d+p?|dm-|md|loop)\d*-\d+|iou-(?:sqp|wrk)-\d+"
)
# Addresses of nobody: RFC 3849 sets these aside for examples.
NOBODYS: Final = 0x20010DB8 << 96
# Programs that serve others: a hop knows them by name.
SERVERS: Final = frozenset({b"nbd-server", b"qemu-nbd", b"qemu-storage-da", b"tgtd", b"virtiofsd"})

# Of cgroups, what says whose container or machine it is, around the name (``cgroups.py``).
_HEX_ID: Final = re.compile(rb"[0-9a-f]{64}")
_NAMED: Final = (
    re.compile(rb"(lxc\.payload\.)(.+)()"),
    re.compile(rb"(systemd-nspawn@)(.+)(\.service)"),
    re.compile(rb"(machine-(?:qemu|lxc)(?:-|\\x2d)\d+(?:-|\\x2d))(.+)(\.scope)"),
    re.compile(rb"(qemu(?:-|\\x2d)\d+(?:-|\\x2d))(.+)(\.libvirt-qemu)"),
)
_CONTAINER: Final = re.compile(
    rb"((?:docker|libpod|cri-containerd|crio|nerdctl)-)([0-9a-f]{64})(\.scope)"
)
_STRUCTURE: Final = frozenset(
    {b"docker", b"ecs", b"k8s.io", b"moby", b"libpod_parent", b"kubepods", b"kubepods.slice",
     b"qemu.slice"}
)  # fmt: skip


@dataclass
class Pseudonyms:
    """What has been given to whom so far, by kind."""

    _given: dict[tuple[str, bytes], int] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def _number(self, kind: str, name: bytes) -> int:
        if (kind, name) not in self._given:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._given[kind, name] = self._counts[kind]
        return self._given[kind, name]

    def part(self, text: bytes) -> bytes:
        """Of a name, or of as much of one as an event has room for."""
        return b"n%d" % self._number("name", text) if text else b""

    def name(self, name: bytes) -> bytes:
        """Of a whole name, as its parts together."""
        parts = (name[at : at + NAME_PART] for at in range(0, len(name), NAME_PART))
        return b"".join(map(self.part, parts))

    def path(self, path: bytes) -> bytes:
        return b"/".join(self.name(name) for name in path.split(b"/"))

    def process(self, name: bytes) -> bytes:
        if not name or name in SERVERS or KERNEL_THREAD.fullmatch(name):
            return name
        return b"process-%d" % self._number("process", name)

    def host(self, name: str) -> str:
        return f"host-{self._number('host', name.encode(errors='surrogateescape'))}"

    def address(self, text: str) -> str:
        """Of a host, or what it exports; one of IP is one of IP afterwards."""
        try:
            return str(IPv6Address(self._ip(ip_address(text))))
        except ValueError:
            return f"address-{self._number('address', text.encode(errors='surrogateescape'))}"

    def halves(self, high: int, low: int) -> tuple[int, int]:
        """The same of an address of IP as events have it: an IPv6 one, or an IPv4 one in it."""
        address = IPv6Address(high << 64 | low)
        number = self._ip(address.ipv4_mapped or address)
        return number >> 64, number & (1 << 64) - 1

    def _ip(self, address: IPv4Address | IPv6Address) -> int:
        known = not address.is_unspecified
        return NOBODYS | self._number("ip", str(address).encode()) if known else 0

    def hashed(self, kind: str, number: int) -> int:
        """Of what was made of somebody's name or address, which may be found by trying all."""
        return self._number(kind, b"%d" % number) if number else 0

    def boot(self, text: str) -> str:
        """As long as the kernel's own."""
        number = self._number("boot", text.encode(errors="surrogateescape"))
        return f"00000000-0000-0000-0000-{number:012}"

    def cgroup(self, path: bytes) -> bytes:
        return b"/".join(map(self._cgroup_name, path.split(b"/")))

    def _cgroup_name(self, name: bytes) -> bytes:
        """That it is a container's or a machine's stays, and which of them are one."""
        if not name or name in _STRUCTURE:
            return name
        if _HEX_ID.fullmatch(name):
            return self._id(name)
        if match := _CONTAINER.fullmatch(name):
            return match[1] + self._id(match[2]) + match[3]
        for pattern in _NAMED:
            if match := pattern.fullmatch(name):
                return match[1] + self.name(match[2]) + match[3]
        if name.startswith(b"kubepods"):
            return b"kubepods-" + self.name(name)
        return self.name(name)

    def _id(self, text: bytes) -> bytes:
        """A number of as many digits, whose first ones tell it from others, as they do there."""
        return b"%012x" % self._number("id", text) + b"0" * 52
