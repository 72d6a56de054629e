# SPDX-License-Identifier: Apache-2.0
"""Trace: the files that a recorder writes into a directory of its own."""

from __future__ import annotations

import re
from typing import Final

METADATA: Final = "metadata"
FACTS: Final = "facts"
FACT: Final = re.compile(r"[a-z][a-z_]{0,31}", re.ASCII)
FILE: Final = re.compile(r"metadata|recorder|cpu_[0-9]{1,5}", re.ASCII)
# In the head of the metadata of each.
OURS: Final = b"iostrata_format"


def is_trace_file(name: str) -> bool:
    """Whether a recorder writes a file of that name, by its path within its directory."""
    folder, slash, fact = name.rpartition("/")
    return bool(FACT.fullmatch(fact) if slash and folder == FACTS else FILE.fullmatch(name))
