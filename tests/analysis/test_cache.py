# SPDX-License-Identifier: Apache-2.0
"""What a large recording came to is kept beside it, and is taken only where it is sure."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from iostrata.analysis import analysed, cache, shelf, summaries, summed_up
from iostrata.attribute import summarise
from iostrata.attribute.summarise import GROUPINGS
from iostrata.cli import status_of
from iostrata.model import Breakdown, Op
from iostrata.recording import (
    ANALYSIS,
    FILE_NAME,
    SUMMARIES,
    Recording,
    open_recording,
    remove_recording,
)
from tests.test_crew import same

RECORDINGS = sorted(
    path.parent
    for name in ("recordings", "recordings_of_reads")
    for path in Path(__file__).parents[1].glob(f"{name}/*/{FILE_NAME}")
)
KEPT = ANALYSIS.format(Op.SYNC)


class AnalysedAnew(Exception):
    pass


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every recording were large, and of some time ago."""
    monkeypatch.setattr(shelf, "LARGE_BYTES", 0)
    monkeypatch.setattr(shelf, "SETTLED_NS", 0)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return copied("four_methods", tmp_path)


@pytest.fixture
def only_kept(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when on nothing is analysed."""

    def anew(*_: object) -> Breakdown:
        raise AnalysedAnew

    def only() -> None:
        for name in ("prepare", "breakdown_of"):
            monkeypatch.setattr(cache, name, anew)

    return only


def copied(name: str, tmp_path: Path) -> Recording:
    (path,) = (path for path in RECORDINGS if path.name == name and path.parent.name[-1] == "s")
    shutil.copytree(path, tmp_path / "own")
    for place in [tmp_path / "own", *(tmp_path / "own").rglob("*")]:
        place.chmod(0o700)
    return open_recording(tmp_path / "own")


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("source", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_is_kept_is_what_it_came_to(
    tmp_path: Path, only_kept: Callable[[], None], source: Path
) -> None:
    shutil.copytree(source, tmp_path / "own")
    (tmp_path / "own").chmod(0o700)
    op = of(source)
    first = analysed(open_recording(tmp_path / "own"), op)
    only_kept()
    same(first, analysed(open_recording(tmp_path / "own"), op))
    with pytest.raises(AnalysedAnew):
        analysed(open_recording(tmp_path / "own"), op, cached=False)


def test_all_that_a_breakdown_has_is_kept() -> None:
    """Whoever adds to it has to say here that it is written, read and checked."""
    assert {one.name for one in fields(Breakdown)} == {
        "writes", "layers", "time_ns", "residual_ns", "left_out", "quality", "behind", "op"
    }  # fmt: skip


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    "change", ["event", "fact", "description", "new", "gone", "program", "library"]
)
def test_of_other_files_nothing_is_taken(
    recording: Recording,
    only_kept: Callable[[], None],
    change: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    analysed(recording)
    only_kept()
    analysed(recording)
    machine = recording.path / recording.machines[0].directory
    stream = max(machine.glob("cpu_*"))
    if change == "event":
        # Not even its length or its own time is another.
        times = stream.stat()
        with stream.open("r+b") as file:
            file.seek(200)
            file.write(b"x")
        os.utime(stream, ns=(times.st_atime_ns, times.st_mtime_ns))
    elif change == "fact":
        with next(machine.glob("facts/*")).open("a") as text:
            text.write("\n")
    elif change == "description":
        (recording.path / FILE_NAME).touch()
    elif change == "new":
        shutil.copy(stream, machine / "cpu_99")
    elif change == "gone":
        stream.unlink()
    elif change == "library":
        monkeypatch.setattr("iostrata.native.BUILT", stream)
    else:
        monkeypatch.setattr("iostrata.__file__", str(machine / "none.py"))
    with pytest.raises(AnalysedAnew):
        analysed(recording)


@pytest.mark.usefixtures("large")
def test_what_is_damaged_is_not_taken(recording: Recording, only_kept: Callable[[], None]) -> None:
    analysed(recording)
    only_kept()
    file = recording.path / KEPT
    whole = file.read_bytes()
    where = random.Random(1)
    for _ in range(300):
        place = where.choice([where.randrange(len(whole)), where.randrange(600)])
        changed = bytearray(whole)
        changed[place] ^= 1 << where.randrange(8)
        file.write_bytes(where.choice([bytes(changed), whole[:place]]))
        with pytest.raises(AnalysedAnew):
            analysed(recording)
    file.write_bytes(whole)
    analysed(recording)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("how", ["file", "directory", "link", "pipe", "owner"])
def test_nothing_is_taken_that_others_may_have_written(
    recording: Recording, only_kept: Callable[[], None], how: str
) -> None:
    analysed(recording)
    only_kept()
    file = recording.path / KEPT
    if how == "file":
        file.chmod(0o666)
    elif how == "directory":
        recording.path.chmod(0o777)
    elif how == "link":
        file.rename(recording.path.parent / "elsewhere")
        file.symlink_to(recording.path.parent / "elsewhere")
    elif how == "pipe":
        file.unlink()
        os.mkfifo(file)
    elif os.geteuid():
        pytest.skip("only root gives files away")
    else:
        os.chown(recording.path, 65534, 65534)
    with pytest.raises(AnalysedAnew):
        analysed(recording)


@pytest.mark.usefixtures("large")
def test_nothing_is_kept_where_others_may_write(recording: Recording) -> None:
    recording.path.chmod(0o777)
    analysed(recording)
    assert not list(recording.path.glob(".*"))


@pytest.mark.parametrize("name", ["LARGE_BYTES", "SETTLED_NS", "MOST_BYTES"])
def test_nothing_is_kept_of_what_is_small_or_new_or_too_long(
    recording: Recording, large: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    many = name == "MOST_BYTES"
    for where in (cache, summaries) if many else (shelf,):
        monkeypatch.setattr(where, name, 1_000 if many else 1 << 62)
    summed_up(recording)
    assert not list(recording.path.glob(".*"))


@pytest.mark.usefixtures("large")
def test_replay_prints_the_same(
    recording: Recording, only_kept: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["replay", str(recording.path), "--by", "process", "--tail"]
    status_of([*words, "--no-cache"])
    expected = capsys.readouterr().out
    assert not list(recording.path.glob(".*"))
    for _ in range(2):
        status_of(words)
        assert capsys.readouterr().out == expected
        only_kept()
    kept = [KEPT, SUMMARIES.format(Op.SYNC)]
    assert sorted(path.name for path in recording.path.glob(".*")) == kept
    remove_recording(recording.path)
    assert not recording.path.exists() or not list(recording.path.iterdir())


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    "words", [["html", "-o"], ["export", "--csv"]], ids=lambda words: str(words[0])
)
def test_other_views_are_the_same(
    recording: Recording, only_kept: Callable[[], None], tmp_path: Path, words: list[str]
) -> None:
    command, option = words
    view = [command, str(recording.path), "--force", option, str(tmp_path / "view")]
    assert status_of([*view, "--no-cache"]) == 0
    expected = (tmp_path / "view").read_bytes()
    assert not list(recording.path.glob(".*"))
    assert status_of(view) == 0
    only_kept()
    (tmp_path / "view").unlink()
    assert status_of(view) == 0
    assert (tmp_path / "view").read_bytes() == expected


def of(source: Path) -> Op:
    """What a recording that is kept with the tests is looked at for."""
    if "reads" not in source.parent.name:
        return Op.SYNC
    return Op.DIRECT if "direct" in source.name else Op.READ


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("source", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_summary_that_is_kept_is_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path
) -> None:
    shutil.copytree(source, tmp_path / "own")
    (tmp_path / "own").chmod(0o700)
    recording, op = open_recording(tmp_path / "own"), of(source)
    by = [name for name in ("", *GROUPINGS) if name != "served" or op is Op.READ]
    breakdown = analysed(recording, op, cached=False)
    expected = {name: summarise(breakdown, name) for name in by}
    for name in by:
        assert summed_up(recording, name, op) == expected[name]

    def anew(*_: object) -> Breakdown:
        raise AnalysedAnew

    monkeypatch.setattr(summaries, "analysed", anew)
    for name in by:
        assert summed_up(recording, name, op) == expected[name]
        with pytest.raises(AnalysedAnew):
            summed_up(recording, name, op, cached=False)


@pytest.mark.usefixtures("large")
def test_a_summary_that_is_damaged_is_not_taken(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = summed_up(recording)
    file = recording.path / SUMMARIES.format(Op.SYNC)
    whole, where = file.read_bytes(), random.Random(2)
    anew: list[Recording] = []
    breakdown = analysed(recording)

    def again(found: Recording, *_: object) -> Breakdown:
        anew.append(found)
        return breakdown

    monkeypatch.setattr(summaries, "analysed", again)
    for number in range(1, 100):
        place = where.choice([where.randrange(len(whole)), where.randrange(60)])
        changed = bytearray(whole)
        changed[place] ^= 1 << where.randrange(8)
        file.write_bytes(where.choice([bytes(changed), whole[:place]]))
        assert summed_up(recording) == expected
        assert len(anew) == number
        assert file.read_bytes() == whole
    summed_up(recording)
    assert len(anew) == 99


@pytest.mark.usefixtures("large")
def test_a_summary_of_other_files_is_not_taken(recording: Recording) -> None:
    first = summed_up(recording)
    (stream,) = recording.path.glob("*/cpu_0")
    os.truncate(stream, stream.stat().st_size // 2)
    found = summed_up(open_recording(recording.path))
    assert found.overall.count < first.overall.count


@pytest.mark.usefixtures("large")
def test_where_there_is_no_room_for_all_the_last_is_kept(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed_up(recording, "process")
    file = recording.path / SUMMARIES.format(Op.SYNC)
    monkeypatch.setattr(summaries, "MOST_BYTES", file.stat().st_size + 200)
    expected = summed_up(recording, "device")
    monkeypatch.setattr(summaries, "analysed", lambda *_: 1 / 0)
    assert summed_up(recording, "device") == expected
    with pytest.raises(ZeroDivisionError):
        summed_up(recording, "process")
