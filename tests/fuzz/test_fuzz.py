# SPDX-License-Identifier: Apache-2.0
"""A few recordings with something wrong in them; ``make fuzz`` tries as many as there is time for.

Seeds of what was wrong once come first.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.__main__ import tried
from tests.fuzz.mutate import Files, mutated
from tests.fuzz.sources import sources

ONCE_WRONG = (71, 1039, 1055, 1086, 2191, 2246)
OTHERS = range(20_000, 20_040)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Files]:
    return sources(tmp_path_factory.mktemp("sources"))


@pytest.mark.parametrize("seed", [*ONCE_WRONG, *OTHERS])
def test_it_is_analysed_or_refused(found: list[Files], seed: int) -> None:
    files = mutated(found[seed % len(found)], Random(seed))
    with tempfile.TemporaryDirectory() as place:
        assert tried(files, Path(place), seed) in ("analysed", "refused")
