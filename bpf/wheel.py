# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Build hook of the wheel: builds the recorder and puts it beside the Python that runs it.

An editable install takes the recorder from bpf/build instead, so that ``make -C bpf``
is all that a change to the recorder needs.
"""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RECORDER = Path("bpf/build/iostrata-record")


class RecorderHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        subprocess.run(["make", "-C", str(Path(self.root, "bpf"))], check=True)
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        recorder = str(Path(self.root, RECORDER))
        build_data["force_include"][recorder] = "iostrata/record/iostrata-record"
