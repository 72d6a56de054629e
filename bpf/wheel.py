# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Build hook of the wheel: builds the recorder, and what of the analysis is C, and puts both beside
the Python that runs them.

An editable install takes them from where they are built instead, so that ``make native`` is all
that a change to them needs. A recorder that is built already, such as
bpf/build/arm64/iostrata-record, is told by IOSTRATA_RECORDER; the wheel is for its type of CPU,
and has the analysis's C if that was built for it, too (``make native-arm64``): else it is NumPy's.
"""

from __future__ import annotations

import os
import platform
import struct
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The recorder is static: it needs no C library, old or new (PEP 600, PEP 656).
PLATFORMS = "manylinux2014_{0}.musllinux_1_1_{0}"
RECORDER = Path("bpf/build/iostrata-record")
TOLD = "IOSTRATA_RECORDER"
ANALYSIS = Path("tracer/native")
# e_machine of elf.h, to what uname calls it.
MACHINES = {62: "x86_64", 183: "aarch64"}
# Where what another type of CPU runs is built: as the kernel calls it.
ARCHITECTURES = {"x86_64": "x86", "aarch64": "arm64"}
# What is linked into it (PEP 770), where `make dist` has asked the system.
PARTS = Path("packaging/build/recorder.cdx.json")


class RecorderHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        told = os.environ.get(TOLD)
        if not told:
            for place in ("bpf", ANALYSIS):
                subprocess.run(["make", "-C", str(Path(self.root, place))], check=True)
        recorder = Path(self.root, told or RECORDER)
        (machine,) = struct.unpack_from("<H", recorder.read_bytes(), 18)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{PLATFORMS.format(MACHINES[machine])}"
        build_data["force_include"][str(recorder)] = "iostrata/record/iostrata-record"
        built = Path(self.root, ANALYSIS, "build")
        if MACHINES[machine] != platform.machine():
            built /= ARCHITECTURES[MACHINES[machine]]
        if (library := built / "libnative.so").exists():
            build_data["force_include"][str(library)] = "iostrata/libnative.so"
        if not told and Path(self.root, PARTS).exists():
            build_data["sbom_files"].append(str(PARTS))
