# SPDX-License-Identifier: Apache-2.0
"""What every test shares: no deadlines (machines differ), and the tools that may be absent."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "iostrata", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("iostrata")

# What runs in the background of a shell without job control (make test &, nohup, most CI) has
# Ctrl-C ignored, and so has every program that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


HERE: Final = Path(__file__).parent
# What runs programs beside one another, and lets one end the other: where the machine gives one no
# CPU for a while, it is late, and some machines' kernels tell no tool of a tracepoint meanwhile.
SIDE_BY_SIDE: Final = frozenset({"bench", "cli", "live", "record", "root"})
# So often that is tried anew, and pytest's summary names it. A defect is there in each of three.
TRIED_ANEW: Final = 2

# The longest are first: of several processes none has a minute of them left when the others end.
LONGEST: Final = frozenset({"test_tidy.py", "test_native.py", "test_style.py"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)
    for item in items:
        if item.path.relative_to(HERE).parts[0] in SIDE_BY_SIDE:
            late = ["AssertionError", "TimeoutExpired"]
            item.add_marker(pytest.mark.flaky(reruns=TRIED_ANEW, only_rerun=late))


@pytest.fixture(scope="session")
def babeltrace() -> str:
    """The path of babeltrace2, the independent reader of what iostrata records."""
    found = shutil.which("babeltrace2")
    if found is None:
        pytest.skip("babeltrace2 is not installed")
    return found
