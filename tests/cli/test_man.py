# SPDX-License-Identifier: Apache-2.0
"""The manual page: of today's help, whole, and good roff. IOSTRATA_REWRITE=1 writes it anew."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from iostrata.cli import COMMANDS, EPILOG, function_of
from iostrata.cli.man import page

PAGE = Path(__file__).parents[2] / "docs" / "iostrata.1"


def test_it_is_of_today() -> None:
    if os.environ.get("IOSTRATA_REWRITE"):
        PAGE.write_text(page())
    assert page() == PAGE.read_text(), "make man"


def test_it_renders_without_a_warning() -> None:
    groff = shutil.which("groff")
    if not groff:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww", "-P-cbou"],
        input=page(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    text = done.stdout
    flat = " ".join(text.split())
    for command in COMMANDS:
        assert f"iostrata {command} [" in flat
        first, *_ = (function_of(command).__doc__ or "").splitlines()
        assert first in flat
    for line in EPILOG.splitlines()[2:]:
        assert " ".join(line.split()) in flat
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "EXIT STATUS", "FILES"):
        assert f"\n{heading}\n" in text
    # Examples keep their lines.
    assert "\n         iostrata compare before after --by method --fail-above 10%\n" in text
    assert "--fail-above PERCENT" in flat
