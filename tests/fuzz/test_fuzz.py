# SPDX-License-Identifier: Apache-2.0
"""A few recordings with something wrong in them; ``make fuzz`` tries as many as there is time for.

Seeds of what was wrong once come first.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import parts
from tests.fuzz.drawn import Drawn, led
from tests.fuzz.mutate import Files
from tests.fuzz.parts import PARTS
from tests.fuzz.run import RECORDING, Result, run
from tests.fuzz.sources import sources

ONCE_WRONG = (
    71, 1039, 1055, 1086, 2191, 2246, 110_303_647, 120_044_831, 20_261_131_006, 20_261_214_192,
)  # fmt: skip
OTHERS = range(20_000, 20_040)
OF_EACH = 40


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Files]:
    return sources(tmp_path_factory.mktemp("sources"))


def results(
    found: list[Files], place: Path, seeds: range, only: str, seconds: float = 1e9
) -> list[Result]:
    return list(run(seeds, found, place, only, 1, seconds))


@pytest.mark.parametrize("seed", [*ONCE_WRONG, *OTHERS])
def test_it_is_analysed_or_refused(found: list[Files], seed: int, tmp_path: Path) -> None:
    (result,) = results(found, tmp_path, range(seed, seed + 1), RECORDING)
    assert result.word in ("analysed", "refused"), result.told


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_taken_or_refused(found: list[Files], part: str, tmp_path: Path) -> None:
    """And both happen: what is always refused tries nothing."""
    became = results(found, tmp_path, range(OF_EACH), part)
    assert [result.told for result in became if result.word == "WRONG"] == []
    assert {result.word for result in became} == {"taken", "refused"}
    assert [result.seed for result in became] == list(range(OF_EACH))


def test_bytes_are_an_input(found: list[Files], tmp_path: Path) -> None:
    """As atheris makes them up: the same ones are the same input, and each part is one of them."""
    made = [bytes([first]) + Random(first).randbytes(200) for first in range(0, 256, 2)]
    became = [led(data, found, tmp_path) for data in made]
    assert [led(data, found, tmp_path) for data in made] == became
    assert {part for part, _ in became} == set(PARTS)
    assert {word for _, word in became} == {"taken", "refused"}


@pytest.mark.parametrize("data", [b"", b"\xef" * 200, b"\xff" * 200, bytes(200)])
def test_bytes_that_are_all_alike_have_an_end(
    found: list[Files], tmp_path: Path, data: bytes
) -> None:
    """Who draws several different ones from them draws on until they are."""
    assert sorted(Drawn(data).sample(range(50), 50)) == list(range(50))
    assert led(data, found, tmp_path)[1] in ("taken", "refused")


def test_a_packet_that_ends_within_an_event_can_be_changed_again(
    found: list[Files], tmp_path: Path
) -> None:
    (result,) = results(found, tmp_path, range(110_194_183, 110_194_184), "stream")
    assert result.word == "refused", result.told


def test_a_loss_told_by_a_packet_of_an_earlier_time(found: list[Files], tmp_path: Path) -> None:
    (result,) = results(found, tmp_path, range(110_629_023, 110_629_024), "stream")
    assert result.word == "refused", result.told


def test_what_ends_its_reader_is_told_and_the_others_are_tried(
    found: list[Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(found: object, random: Random, place: Path) -> str:
        number = random.random()
        if number < 0.2:
            os.kill(os.getpid(), signal.SIGKILL)
        if number < 0.4:
            raise AssertionError("on purpose")
        return "taken"

    monkeypatch.setitem(parts.PARTS, "status", (dying, 1))
    became = results(found, tmp_path, range(100, 130), "status")
    wanted = [Random(seed).random() for seed in range(100, 130)]
    assert [result.word == "WRONG" for result in became] == [number < 0.4 for number in wanted]
    told = [result.told for result in became if result.word == "WRONG"]
    assert all(("SIGKILL" in text) != ("on purpose" in text) for text in told)
    assert sum("SIGKILL" in text for text in told) == sum(number < 0.2 for number in wanted)


def test_a_reader_that_hangs_is_ended(
    found: list[Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hanging(found: object, random: Random, place: Path) -> str:
        while True:
            time.monotonic()

    monkeypatch.setattr("tests.fuzz.run.LIMIT_S", 0.2)
    monkeypatch.setattr(signal, "alarm", lambda seconds: 0)
    monkeypatch.setitem(parts.PARTS, "status", (hanging, 1))
    (result,) = results(found, tmp_path, range(1), "status")
    assert "SIGPROF" in result.told
