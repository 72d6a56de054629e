# SPDX-License-Identifier: Apache-2.0
"""What `make dist` has built, installed as README says, and tried on this machine's kernel."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from iostrata.errors import STATUS_LOSSES
from iostrata.record import refusal
from tests.roots import run

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


def for_arm64(wheel: Path, target: Path, python: str) -> Path:
    """The wheel and all that it asks for, as pip installs them on arm64 with that Python."""
    places = [f"--platform={name}_aarch64" for name in ("manylinux2014", "manylinux_2_28")]
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", *places)
    run(*pip, f"--python-version={python}", "--target", target, wheel, timeout_s=1800)
    return target


def readme(program: str) -> str:
    """README's command of that program below Install, without what is said beside it."""
    text = (ROOT / "README.md").read_text().partition("## Install\n")[2].partition("## Use\n")[0]
    (line,) = re.findall(rf"^{program} .*", text, re.MULTILINE)
    return re.split(r"  +", line)[0]


def table(*iostrata: str | Path, recording: str | Path = ROOT / BUNDLED) -> str:
    command = [*map(str, iostrata), "replay", str(recording)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return done.stdout


def records(begin: Sequence[str | Path]) -> None:
    """``begin``: of `iostrata run` there: it tells a program's writes, or why it may not."""
    words = [*map(str, begin), "--", "sh", "-c", f"cd /var/tmp && {WRITER}"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)
    if refused := refusal():
        assert refused.why in done.stderr
        return
    assert done.returncode in (0, STATUS_LOSSES), done.stderr
    assert "synchronous writes by dd" in done.stdout
    assert re.search(rf"^analysed +\d+ of {WRITES} writes", done.stdout, re.MULTILINE), done.stdout
