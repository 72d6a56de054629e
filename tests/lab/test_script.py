# SPDX-License-Identifier: Apache-2.0
"""The script for bpftrace on a kernel of Debian's, whose file systems are modules: bpftrace 0.17
knows of its types only those that are in the kernel itself. None is booted."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from iostrata.lab.kernels import kernel
from iostrata.script import script
from tests.lab.test_oracles import Quiet

pytestmark = pytest.mark.lab


def test_bpftrace_reads_it_without_the_types_of_modules(tmp_path: Path) -> None:
    if os.geteuid() or not shutil.which("bpftrace"):
        pytest.skip("needs root and bpftrace")
    types, text = tmp_path / "btf", tmp_path / "iostrata.bt"
    image = kernel("6.1", Quiet()).image
    dump = ["objcopy", "--dump-section", f".BTF={types}", str(image), os.devnull]
    subprocess.run(dump, check=True)
    text.write_text(script())
    done = subprocess.run(
        ["bpftrace", "-d", str(text)],
        env={**os.environ, "BPFTRACE_BTF": str(types)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
