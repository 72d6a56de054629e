# SPDX-License-Identifier: Apache-2.0
"""Marked by their folder: run by make test-databases only."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from iostrata.bench.place import NO_DISK, file_system_of

TRACING = Path("/sys/kernel/tracing")

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.databases)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory on a disk, that databases which refuse to be root can reach, too."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="iostrata-") as name:
        if file_system_of(Path(name)) in NO_DISK:
            pytest.skip("/var/tmp is not on a disk")
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session", autouse=True)
def tracing() -> None:
    """bpftrace finds tracepoints there."""
    if not (TRACING / "events").exists():
        subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACING], check=False)
