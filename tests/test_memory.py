# SPDX-License-Identifier: Apache-2.0
"""What was freed is had again, and not cleared anew by the kernel."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import numpy as np
from iostrata.memory import keep_freed

if sys.argv[1:]:
    keep_freed()
for turn in range(12):
    if turn == 2:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    columns = [np.ones(3 << 16) for _ in range(8)]
    del columns
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

OF_THREADS = """
import resource, sys, threading
import numpy as np
from iostrata.memory import keep_freed

if sys.argv[1:]:
    keep_freed()

def columns():
    [np.ones(3 << 16) for _ in range(8)]

columns()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
thread = threading.Thread(target=columns)
thread.start()
thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(program: str, *words: str) -> int:
    command = [sys.executable, "-c", program, *words]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's")
@pytest.mark.parametrize("program", [FAULTS, OF_THREADS])
def test_what_was_freed_is_kept(program: str) -> None:
    """For whichever thread asks next."""
    assert faults(program, "kept") * 10 < faults(program)
