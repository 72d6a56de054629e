# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Build hook of the wheel: builds the recorder and puts it beside the Python that runs it.

An editable install takes the recorder from bpf/build instead, so that ``make -C bpf``
is all that a change to the recorder needs.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from platform import machine
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The recorder is static: it needs no C library, old or new (PEP 600, PEP 656).
PLATFORMS = "manylinux2014_{0}.musllinux_1_1_{0}"
RECORDER = Path("bpf/build/iostrata-record")


class RecorderHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        subprocess.run(["make", "-C", str(Path(self.root, "bpf"))], check=True)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{PLATFORMS.format(machine())}"
        recorder = str(Path(self.root, RECORDER))
        build_data["force_include"][recorder] = "iostrata/record/iostrata-record"
