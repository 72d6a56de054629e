# SPDX-License-Identifier: Apache-2.0
"""The script stage: the script itself, as it is to be copied to another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from iostrata.script.words import NAME

PACKAGED: Final = Path(__file__).parent / NAME
IN_TREE: Final = Path(__file__).parents[3] / "bpf" / NAME


def script() -> str:
    """Its text."""
    return (PACKAGED if PACKAGED.exists() else IN_TREE).read_text()
