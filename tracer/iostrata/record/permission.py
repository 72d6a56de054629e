# SPDX-License-Identifier: Apache-2.0
"""Record stage: whether this process may use eBPF here, and if not, why and what to do."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from types import MappingProxyType
from typing import Final

from iostrata.errors import PermissionDenied, RecorderError
from iostrata.record.recorder import find_recorder

BTF: Final = Path("/sys/kernel/btf/vmlinux")
STATUS: Final = Path("/proc/self/status")
CAP_SYS_ADMIN: Final = 21
CAP_PERFMON: Final = 38
CAP_BPF: Final = 39
BUYS: Final[Mapping[str, tuple[int, str]]] = MappingProxyType({
    "CAP_DAC_READ_SEARCH": (2, "system calls (tracefs is root's): without them there is no write"),
    "CAP_SYS_PTRACE": (19, "files that other users' processes have open, functions of daemons"),
    "CAP_SYS_ADMIN": (CAP_SYS_ADMIN, "what is in modules, such as ext4, NFS and NVMe of Debian"),
    "CAP_SYS_NICE": (23, "a recorder that is not kept waiting: a busy machine loses events"),
    "CAP_SYSLOG": (34, "names of the kernel's functions (--why)"),
    "CAP_SYS_RESOURCE": (24, "rings and maps: to this kernel they are locked memory (ulimit -l)"),
})  # fmt: skip
"""What more than loading programs takes: the capability's number, and what is not had without."""
COUNTED_BY_CGROUP: Final = b"\0BPF_FUNC_ktime_get_coarse_ns\0"
"""Linux 5.11 has it (kernel commit d05512618056), and counts BPF's memory to control groups, no
longer to RLIMIT_MEMLOCK: libbpf asks for it, too."""
FILE_CAPABILITIES: Final = Struct("<5I")
"""``struct vfs_cap_data``: revision and flags, then permitted and inheritable, twice 32 of each."""
EFFECTIVE: Final = 1


@dataclass(frozen=True)
class Refusal:
    why: str
    hint: str


NAMESPACES: Final = {
    Path("/proc/self/ns/pid"): (
        0xEFFFFFFC,
        Refusal(
            "this is not the machine's own PID namespace: the kernel tells of processes by "
            "other numbers than they have here",
            "record outside, or give the container --pid=host (hostPID)",
        ),
    ),
    Path("/proc/self/ns/time"): (
        0xEFFFFFFA,
        Refusal(
            "this is not the machine's own time namespace: the kernel tells of other times than "
            "the clock has here",
            "record outside; what is recorded may be in one",
        ),
    ),
}
"""Those that must be the machine's own: by linux/proc_ns.h (PROC_PID_INIT_INO, PROC_TIME_INIT_INO)
its number, and why not another."""


def refusal() -> Refusal | None:
    """Why eBPF is refused here; None: nothing is known that stands in the way."""
    if not _may_load(_capabilities()) and not _may_load(_given()):
        return Refusal(
            "recording with eBPF needs root (or CAP_BPF and CAP_PERFMON)",
            "run it with sudo; `iostrata replay` needs no rights",
        )
    if not BTF.exists():
        return Refusal(
            f"this kernel has no BTF ({BTF} is missing)",
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y (Debian's and most others have it)",
        )
    for namespace, (initial, found) in NAMESPACES.items():
        with suppress(OSError):
            if namespace.stat().st_ino != initial:
                return found
    return None


def lacking() -> tuple[str, ...]:
    """Of ``BUYS``, what neither this process has nor the recorder's file gives."""
    given = _capabilities() | _given()
    names = [name for name, (bit, _) in BUYS.items() if not given >> bit & 1]
    return tuple(name for name in names if name != "CAP_SYS_RESOURCE" or _memory_is_limited())


def check_ebpf() -> None:
    """PermissionDenied where eBPF is refused."""
    if found := refusal():
        raise PermissionDenied(found.why, found.hint)


def _memory_is_limited() -> bool:
    _, most = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return most != resource.RLIM_INFINITY and COUNTED_BY_CGROUP not in BTF.read_bytes()


def _capabilities() -> int:
    for line in STATUS.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return int(value, 16)
    return 0


def _given() -> int:
    """What the recorder's file gives to whoever may run it: see capabilities(7)."""
    try:
        value = os.getxattr(find_recorder(), "security.capability")
    except (OSError, RecorderError):
        return 0
    if len(value) < FILE_CAPABILITIES.size:
        return 0
    magic, low, _, high, _ = FILE_CAPABILITIES.unpack_from(value)
    return (high << 32 | low) if magic & EFFECTIVE else 0


def _may_load(capabilities: int) -> bool:
    """CAP_SYS_ADMIN implies both to the kernel, but the recorder keeps no more than these."""
    return bool(capabilities >> CAP_BPF & 1 and capabilities >> CAP_PERFMON & 1)
