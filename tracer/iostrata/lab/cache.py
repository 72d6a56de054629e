# SPDX-License-Identifier: Apache-2.0
"""Lab stage: where the lab keeps its kernels, its machines and its last recordings."""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """The lab's directory in the user's cache; everything in it may be removed."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "iostrata" / "lab"
