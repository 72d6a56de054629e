# SPDX-License-Identifier: Apache-2.0
"""Memory that NumPy frees is kept for what it asks for next.

What comes fresh from the kernel is cleared page by page, which took a quarter of the time of a
large analysis, and ours asks for some megabytes a thousand times a second. What is needed at once,
and so the most that it takes, stays the same. What one thread frees is what another one asks for:
by themselves, each keeps its own.
"""

from __future__ import annotations

import ctypes
from typing import Final

# malloc.h of glibc, and the most that it takes as the second.
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
MOST_BYTES: Final = 32 << 20
NEVER: Final = (1 << 31) - 1


def keep_freed() -> None:
    """Of this process, and of what it forks. With another C library nothing changes."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(M_MMAP_THRESHOLD, MOST_BYTES)
        mallopt(M_TRIM_THRESHOLD, NEVER)
        mallopt(M_ARENA_MAX, 1)
