# SPDX-License-Identifier: Apache-2.0
"""Machines that are entered by an ssh of ours, of which nothing runs on afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.recordings import small_recording
from tests.record.far import Far, keepers, set_up


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    monkeypatch.chdir(tmp_path)
    small_recording(tmp_path / "far" / "trace")
    far = set_up(tmp_path, monkeypatch, "vm", "nas")
    yield far
    for keeper in keepers(far.places):
        # One that finds its directory gone ends by itself.
        with suppress(ProcessLookupError):
            os.killpg(keeper, signal.SIGKILL)
