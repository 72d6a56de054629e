# SPDX-License-Identifier: Apache-2.0
"""What `make dist` has built, installed as README says, and tried on this machine's kernel."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from iostrata.errors import STATUS_LOSSES
from iostrata.record import refusal

ROOT: Final = Path(__file__).parents[2]
DIST: Final = ROOT / "dist"
BUNDLED: Final = "tests/recordings/four_methods"
WRITES: Final = 40
WRITER: Final = f"dd if=/dev/zero of=written bs=4k count={WRITES} oflag=dsync status=none"


def artefact(pattern: str) -> Path:
    found = list(DIST.glob(pattern))
    if not found:
        pytest.fail(f"there is no {pattern} in {DIST}: run `make dist`")
    (one,) = found
    return one


def readme(program: str) -> str:
    """README's command of that program below Install, without what is said beside it."""
    text = (ROOT / "README.md").read_text().partition("## Install\n")[2].partition("## Use\n")[0]
    (line,) = re.findall(rf"^{program} .*", text, re.MULTILINE)
    return re.split(r"  +", line)[0]


def table(*iostrata: str | Path, recording: str | Path = ROOT / BUNDLED) -> str:
    command = [*map(str, iostrata), "replay", str(recording)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return done.stdout


def records(run: Sequence[str | Path]) -> None:
    """``run`` begins `iostrata run` there: it tells a program's writes, or why it may not."""
    words = [*map(str, run), "--", "sh", "-c", f"cd /var/tmp && {WRITER}"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)
    if refused := refusal():
        assert refused.why in done.stderr
        return
    assert done.returncode in (0, STATUS_LOSSES), done.stderr
    assert "synchronous writes by dd" in done.stdout
    assert re.search(rf"^analysed +\d+ of {WRITES} writes", done.stdout, re.MULTILINE), done.stdout
