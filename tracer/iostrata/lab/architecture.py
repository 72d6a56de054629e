# SPDX-License-Identifier: Apache-2.0
"""Lab stage: Debian's name of an architecture in, how QEMU makes a machine of it out."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Architecture:
    """``name``: Debian's. ``machine``: as uname calls it. ``program``: of QEMU.

    ``accelerators``: QEMU's words for the processor, by what runs it. ``boot``: the kernel's
    words, ``poll``: one more for a processor that is never halted.
    """

    name: str
    machine: str
    program: str
    board: str
    firmware: tuple[str, ...]
    accelerators: Mapping[str, tuple[str, ...]]
    boot: str
    poll: str

    @property
    def foreign(self) -> bool:
        """Whether this machine's programs do not run there."""
        return self.machine != platform.machine()


ARCHITECTURES: Final = {
    "amd64": Architecture(
        name="amd64",
        machine="x86_64",
        program="qemu-system-x86_64",
        board="q35",
        # Which starts a kernel and does nothing else, and that sooner.
        firmware=("-bios", "qboot.rom"),
        accelerators={
            "kvm": ("-accel", "kvm", "-cpu", "host"),
            # With AMD's virtualization, so that machines can be nested. Without AVX2: QEMU 7.2's
            # gathers wrong numbers, so NumPy sorted wrongly in a machine, or ended by a signal.
            "tcg": ("-accel", "tcg,thread=multi", "-cpu", "max,+svm,-avx2"),
        },
        boot="console=ttyS0 quiet panic=-1 tsc=reliable mitigations=off",
        poll="idle=poll",
    ),
    "arm64": Architecture(
        name="arm64",
        machine="aarch64",
        program="qemu-system-aarch64",
        board="virt,gic-version=max",
        firmware=(),
        accelerators={
            "kvm": ("-accel", "kvm", "-cpu", "host"),
            # With atomic instructions, and without signed pointers, which are slow to emulate.
            "tcg": ("-accel", "tcg,thread=multi", "-cpu", "neoverse-n1"),
        },
        boot="console=ttyAMA0 quiet panic=-1 mitigations=off",
        poll="nohlt",
    ),
}
