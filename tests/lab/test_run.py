# SPDX-License-Identifier: Apache-2.0
"""A run that ends before its time: what was measured stays, and says so."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from iostrata.errors import LabError
from iostrata.lab.checks import Check
from iostrata.lab.read import read_scenario
from iostrata.lab.run import RoundResult, run
from tests.lab.scenarios import document, write
from tests.lab.test_parts import Heard


def test_rounds_survive_one_that_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rounds(*ignored: Any) -> Iterator[RoundResult]:
        checks = (Check("lost", True, "0", "0"), Check("mean", False, "2 ms", "1 ms"))
        yield RoundResult("fdatasync", tmp_path, None, checks)  # type: ignore[arg-type]
        raise LabError("machine local: it is gone")

    stage = sys.modules[run.__module__]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(stage, "furnished", lambda *ignored: nullcontext())
    monkeypatch.setattr(stage, "_observe", lambda *ignored: None)
    monkeypatch.setattr(stage, "_rounds", rounds)
    told = Heard()
    result = run(read_scenario(write(document(), tmp_path)), "local", told, keep=False)
    assert [each.name for each in result.rounds] == ["fdatasync"]
    assert str(result.broken) == "machine local: it is gone"
    assert not result.passed
    assert told.lines == ["fdatasync: FAILED mean 2 ms; 1 of 3 rounds"]
