# SPDX-License-Identifier: Apache-2.0
"""What windows let go of: the next one's, and after the last one the system's."""

from __future__ import annotations

from ctypes import CDLL, c_int, c_size_t
from typing import Final

import numpy as np

KEPT_BYTES: Final = 16 << 20


def keep_memory() -> None:
    """Has glibc keep what a window lets go of for the next one, up to twice ``KEPT_BYTES``.

    It gives back less once anything so large was freed (mallopt(3): the dynamic threshold).
    Without that the kernel hands out the same pages anew in every window, zeroed one by one:
    a sixth of the time.
    """
    np.empty(KEPT_BYTES, np.uint8)


def give_back() -> None:
    """Has glibc give back what is free between what stays, too (malloc_trim(3)).

    Other libraries' allocators have no such call.
    """
    trim = getattr(CDLL(None), "malloc_trim", None)
    if trim:
        trim.argtypes, trim.restype = [c_size_t], c_int
        trim(0)
