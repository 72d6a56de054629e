# SPDX-License-Identifier: Apache-2.0
"""The mask of new files' modes: who makes one here can use it, whatever mask we were given.

A command that is recorded has the one that we were given.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

OWNERS: Final = 0o700


@dataclass
class _Mask:
    """``given``: for subprocess, -1 while it is the process's own."""

    given: int = -1


MASK: Final = _Mask()


@contextmanager
def owners_may() -> Iterator[None]:
    """While a command of ours runs."""
    MASK.given = os.umask(0)
    os.umask(MASK.given & ~OWNERS)
    try:
        yield
    finally:
        os.umask(MASK.given)
        MASK.given = -1
