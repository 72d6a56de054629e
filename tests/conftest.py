# SPDX-License-Identifier: Apache-2.0
"""What every test shares: no deadlines (machines differ), and the tools that may be absent."""

from __future__ import annotations

import shutil
import signal

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


@pytest.fixture(scope="session")
def babeltrace() -> str:
    """The path of babeltrace2, the independent reader of what iostrata records."""
    found = shutil.which("babeltrace2")
    if found is None:
        pytest.skip("babeltrace2 is not installed")
    return found
