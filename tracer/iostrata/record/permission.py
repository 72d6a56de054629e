# SPDX-License-Identifier: Apache-2.0
"""Record stage: whether this process may use eBPF here, and if not, why and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from iostrata.errors import PermissionDenied

BTF: Final = Path("/sys/kernel/btf/vmlinux")
STATUS: Final = Path("/proc/self/status")
CAP_SYS_ADMIN: Final = 21


@dataclass(frozen=True)
class Refusal:
    why: str
    hint: str


def refusal() -> Refusal | None:
    """Why eBPF is refused here; None: nothing is known that stands in the way."""
    if not _may_load(_capabilities()):
        return Refusal(
            "recording with eBPF needs root (in a container CAP_SYS_ADMIN, too)",
            "run it with sudo; `iostrata replay` needs no rights",
        )
    if not BTF.exists():
        return Refusal(
            f"this kernel has no BTF ({BTF} is missing)",
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y (Debian's and most others have it)",
        )
    return None


def check_ebpf() -> None:
    """PermissionDenied where eBPF is refused."""
    if found := refusal():
        raise PermissionDenied(found.why, found.hint)


def _capabilities() -> int:
    for line in STATUS.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return int(value, 16)
    return 0


def _may_load(capabilities: int) -> bool:
    """CAP_BPF and CAP_PERFMON, which it implies, are not enough: the kernel lists its modules' BTF
    to it alone (bpf_obj_get_next_id).
    """
    return bool(capabilities >> CAP_SYS_ADMIN & 1)
