# SPDX-License-Identifier: Apache-2.0
"""What is known of a process by its number."""

from __future__ import annotations

import subprocess
import sys
import time

from iostrata.lab.process import Process, process

SPIN = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"


def test_for_how_long_it_waited_for_a_cpu() -> None:
    """Two of them have one CPU."""
    one, other = (subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2))
    found = process(one.pid)
    try:
        deadline = time.monotonic() + 60
        while found.waited_ns < 50_000_000 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert 50_000_000 <= found.waited_ns < 60_000_000_000
    finally:
        for each in (one, other):
            each.kill()
            each.wait()
    assert found.waited_ns == 0
    assert Process(1, -1).waited_ns == 0
