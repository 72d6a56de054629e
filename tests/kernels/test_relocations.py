# SPDX-License-Identifier: Apache-2.0
"""arm64's programs on arm64's kernels, which need not run for that: what they ask for is there.

IOSTRATA_REWRITE=1 writes anew what is not.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.lab.kernels import kernel
from tests.kernels.relocations import lacks
from tests.kernels.test_kernels import held_against_golden
from tests.lab.test_parts import Heard

pytestmark = pytest.mark.kernels
BUILT = Path(__file__).parents[2] / "bpf" / "build" / "arm64" / "iostrata.o"


@pytest.mark.parametrize("series", ["6.1", "6.12", "7.2"])
def test_what_the_programs_ask_for_is_there(series: str, tmp_path: Path) -> None:
    """But for what other kernels have instead, and for KVM's types of x86's processors."""
    lines = lacks(kernel(series, Heard(), "arm64"), BUILT, tmp_path)
    found = "".join(f"{line}\n" for line in lines)
    held_against_golden(f"relocations-arm64-{series}", found)
