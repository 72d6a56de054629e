# SPDX-License-Identifier: Apache-2.0
"""Record stage: what ping would say of the way to each NFS server while it is recorded.

An echo request of 8 KB a second, as one measures a network by hand before one blames it.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from iostrata.record.mounts import MOUNTINFO, network_mounts
from iostrata.trace import ECHOES, Echo, echo_lines, write_whole

SIZE_BYTES: Final = 8192
EVERY_S: Final = 1.0
LIMIT_S: Final = 1.0
"""For an answer; what takes longer counts as none."""

HEADER: Final = struct.Struct("!BBHHH")
# Types of request and reply, by the version of IP: RFC 792, RFC 4443.
TYPES: Final = {4: (8, 0), 6: (128, 129)}
# When the kernel got it, not when we did; not in Python's module.
SO_TIMESTAMPNS: Final = 35
TIMESPEC: Final = struct.Struct("@ll")
LARGEST: Final = 1 << 16


class Echoes:
    """While it is entered, echoes to ``servers``, which are asked for anew each time.

    ``refusal``: why one could not be sent; empty: none was refused.
    """

    def __init__(self, servers: Callable[[], Iterable[str]], every_s: float = EVERY_S) -> None:
        self.found: list[Echo] = []
        self.refusal = ""
        self._servers, self._every_s = servers, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="echo", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while True:
            for address in self._servers():
                number = (number + 1) & 0xFFFF
                sent_ns = time.monotonic_ns()
                try:
                    self.found.append(Echo(address, sent_ns, round_trip(address, number)))
                except (OSError, ValueError) as refused:
                    self.refusal = f"{address}: {refused}"
            if self._ended.wait(self._every_s):
                return


def servers(mountinfo: Path = MOUNTINFO) -> list[str]:
    """The address of each NFS server of this machine's mounts, once."""
    lines = mountinfo.read_text(errors="replace").splitlines()
    return sorted({mount.address for mount in network_mounts(lines)})


def round_trip(address: str, number: int) -> int | None:
    """Of one echo, in ns; None: no answer. Errors: OSError, ValueError (no address)."""
    version = ip_address(address).version
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    protocol = socket.IPPROTO_ICMP if version == 4 else socket.IPPROTO_ICMPV6
    mark = (os.getpid() & 0xFFFF, number)
    # Made before the time is taken: its checksum takes as long as a near network.
    packet = request(version, mark)
    with socket.socket(family, socket.SOCK_RAW, protocol) as raw:
        raw.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        raw.connect((address, 0))
        until = time.monotonic() + LIMIT_S
        sent_ns = time.time_ns()
        raw.send(packet)
        while (left := until - time.monotonic()) > 0:
            raw.settimeout(left)
            try:
                data, told, _, _ = raw.recvmsg(LARGEST, socket.CMSG_SPACE(TIMESPEC.size))
            except TimeoutError:
                break
            if is_reply(version, data, mark):
                return received_ns(told) - sent_ns
    return None


def request(version: int, mark: tuple[int, int]) -> bytes:
    """The kernel adds the checksum of IPv6's, for which it takes the addresses as well."""
    kind, data = TYPES[version][0], bytes(SIZE_BYTES)
    checksum = checksum_of(HEADER.pack(kind, 0, 0, *mark) + data) if version == 4 else 0
    return HEADER.pack(kind, 0, checksum, *mark) + data


def is_reply(version: int, data: bytes, mark: tuple[int, int]) -> bool:
    """Whether it answers the request of that mark; IPv4's bears the header of IP."""
    start = (data[0] & 0xF) * 4 if version == 4 else 0
    if len(data) < start + HEADER.size:
        return False
    kind, _, _, *found = HEADER.unpack_from(data, start)
    return kind == TYPES[version][1] and tuple(found) == mark


def received_ns(told: Iterable[tuple[int, int, bytes]]) -> int:
    for level, kind, data in told:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, ns = map(int, TIMESPEC.unpack(data))
            return seconds * 1_000_000_000 + ns
    return time.time_ns()


def checksum_of(data: bytes) -> int:
    """The ones' complement of the sum, RFC 1071; of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def write_echoes(trace: Path, echoes: Iterable[Echo]) -> None:
    """Beside the other facts of the trace."""
    file = trace / "facts" / ECHOES
    file.parent.mkdir(exist_ok=True)
    write_whole(file, echo_lines(echoes).encode())
