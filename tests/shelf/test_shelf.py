# SPDX-License-Identifier: Apache-2.0
"""What a large recording came to is kept beside it, and is taken only where it is sure."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest

from iostrata import analysis
from iostrata.attribute import summarise
from iostrata.attribute.summarise import GROUPINGS
from iostrata.cli import status_of
from iostrata.errors import STATUS_LOSSES
from iostrata.model import Breakdown, Op, Summary
from iostrata.recording import (
    ANALYSIS,
    FILE_NAME,
    SUMMARIES,
    Recording,
    open_recording,
    remove_recording,
)
from iostrata.shelf import analysed, answered, answers, breakdowns, files
from tests.test_crew import same
from tests.trace.framed import framed_copy

RECORDINGS = sorted(
    path.parent
    for name in ("recordings", "recordings_of_reads")
    for path in Path(__file__).parents[1].glob(f"{name}/*/{FILE_NAME}")
)
KEPT = ANALYSIS.format(Op.SYNC)
MAGICS = {KEPT: breakdowns.MAGIC, SUMMARIES.format(Op.SYNC): answers.MAGIC}


class AnalysedAnew(Exception):
    pass


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every recording were large, and of some time ago."""
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    monkeypatch.setattr(files, "SETTLED_NS", 0)


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
            monkeypatch.setattr(analysis, name, anew)

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
def test_it_is_the_same_recording_by_another_path(
    recording: Recording, only_kept: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed(recording)
    only_kept()
    monkeypatch.chdir(recording.path)
    analysed(open_recording(Path()))
    recording.path.rename(recording.path.parent / "renamed")
    analysed(open_recording(Path("../renamed")))


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
    for where in (breakdowns, answers) if many else (files,):
        monkeypatch.setattr(where, name, 1_000 if many else 1 << 62)
    summed_up(recording)
    assert not list(recording.path.glob(".*"))


@pytest.mark.usefixtures("large")
def test_what_is_kept_goes_with_the_recording(recording: Recording) -> None:
    status_of(["replay", str(recording.path)])
    kept = [KEPT, SUMMARIES.format(Op.SYNC)]
    assert sorted(path.name for path in recording.path.glob(".*")) == kept
    remove_recording(recording.path)
    assert not recording.path.exists() or not list(recording.path.iterdir())


@pytest.mark.usefixtures("large")
def test_a_table_is_the_same(
    recording: Recording, only_kept: Callable[[], None], tmp_path: Path
) -> None:
    view = ["export", str(recording.path), "--force", "--csv", str(tmp_path / "view")]
    assert status_of([*view, "--no-cache"]) == 0
    expected = (tmp_path / "view").read_bytes()
    assert not list(recording.path.glob(".*"))
    assert status_of(view) == 0
    only_kept()
    (tmp_path / "view").unlink()
    assert status_of(view) == 0
    assert (tmp_path / "view").read_bytes() == expected


OF_READS = [path for path in RECORDINGS if "reads" in path.parent.name]
SOME = [*RECORDINGS[: -len(OF_READS) : 3], *OF_READS]
"""That all of what is analysed is kept is tested with each; what views make of it, with these."""
VIEWS = (
    ["replay", "--by", "process", "--tail", "--who"],
    ["replay", "--json", "-", "--histogram", "--over-time"],
    ["replay", "--slower-than", "1us", "--over-time"],
    ["timeline", "--json", "-"],
    ["timeline", "--slowest", "2", "--by", "method"],
    ["compare", "{}", "--json", "-"],
    ["html", "-o", "/dev/stdout", "--force"],
    ["estimate", "--json", "-"],
)


def of(source: Path) -> Op:
    """What a recording that is kept with the tests is looked at for."""
    if "reads" not in source.parent.name:
        return Op.SYNC
    return Op.DIRECT if "direct" in source.name else Op.READ


def seen(recording: Recording, op: Op, view: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    command, *words = view
    words = [word.format(recording.path) for word in words]
    which = [] if command == "estimate" else ["--op", op.value]
    assert status_of([command, str(recording.path), *which, *words]) in (0, STATUS_LOSSES)
    return capfd.readouterr().out


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("source", SOME, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_view_that_is_kept_is_what_it_was(
    tmp_path: Path,
    only_kept: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    source: Path,
) -> None:
    shutil.copytree(source, tmp_path / "own")
    (tmp_path / "own").chmod(0o700)
    recording, op = open_recording(tmp_path / "own"), of(source)
    views = [view for view in VIEWS if view[0] != "estimate" or op is Op.SYNC]
    expected = [seen(recording, op, [*view, "--no-cache"], capfd) for view in views]
    assert all(expected)
    assert not list(recording.path.glob(".*"))
    assert [seen(recording, op, view, capfd) for view in views] == expected
    only_kept()
    monkeypatch.setattr(breakdowns, "_taken", lambda *_: 1 / 0)
    assert [seen(recording, op, view, capfd) for view in views] == expected


def summed_up(recording: Recording, by: str = "", op: Op = Op.SYNC, cached: bool = True) -> Summary:
    def summary() -> Summary:
        return summarise(breakdowns.analysed(recording, op, cached=cached), by)

    return answered(recording, op, f"by {by}", Summary, summary, cached)


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

    def anew(*_: object, **__: object) -> Breakdown:
        raise AnalysedAnew

    monkeypatch.setattr(breakdowns, "analysed", anew)
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

    def again(found: Recording, *_: object, **__: object) -> Breakdown:
        anew.append(found)
        return breakdown

    monkeypatch.setattr(breakdowns, "analysed", again)
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
def test_where_there_is_no_room_for_all_the_last_are_kept(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed_up(recording, "process")
    file = recording.path / SUMMARIES.format(Op.SYNC)
    one = file.stat().st_size
    summed_up(recording, "method")
    monkeypatch.setattr(answers, "MOST_BYTES", file.stat().st_size + one // 2)
    expected = summed_up(recording, "device")
    monkeypatch.setattr(breakdowns, "analysed", lambda *_, **__: 1 / 0)
    assert summed_up(recording, "device") == expected
    summed_up(recording, "method")
    with pytest.raises(ZeroDivisionError):
        summed_up(recording, "process")


@pytest.mark.usefixtures("large")
def test_of_an_answer_of_another_kind_it_is_asked_anew(recording: Recording) -> None:
    assert answered(recording, Op.SYNC, "number", int, lambda: 7) == 7
    assert answered(recording, Op.SYNC, "number", int, lambda: 1 // 0) == 7
    assert answered(recording, Op.SYNC, "number", str, lambda: "seven") == "seven"
    assert answered(recording, Op.SYNC, "number", str, lambda: str(1 // 0)) == "seven"


@pytest.mark.usefixtures("large")
def test_an_answer_that_is_no_text_is_not_kept(recording: Recording) -> None:
    for word in ("\udcff", "text"):
        assert answered(recording, Op.SYNC, repr(word), str, partial(str, word)) == word
    assert answered(recording, Op.SYNC, repr("\udcff"), str, lambda: "anew") == "anew"
    assert answered(recording, Op.SYNC, repr("text"), str, lambda: "anew") == "text"


@pytest.mark.usefixtures("large")
def test_where_nothing_can_be_written_all_is_answered(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = summed_up(recording, cached=False)

    opened = os.open

    def refused(path: str, flags: int, mode: int = 0, **more: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system")
        return opened(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", refused)
    assert summed_up(recording) == expected
    assert not list(recording.path.glob(".*"))


@pytest.mark.usefixtures("large")
def test_what_another_version_kept_is_replaced(recording: Recording) -> None:
    expected = summed_up(recording)
    kept = {recording.path / name: MAGICS[name] for name in MAGICS}
    now = {file: file.read_bytes() for file in kept}
    for file, magic in kept.items():
        assert now[file].startswith(magic)
        file.write_bytes(magic[:-2] + b"0\n" + now[file][len(magic) :])
    assert summed_up(recording) == expected
    assert {file: file.read_bytes() for file in kept} == now


def test_of_one_with_frames_it_is_known_how_large_it_is_without(tmp_path: Path) -> None:
    """About: by that it is chosen what is kept, and how many are analysed at once."""
    (plain,) = (path for path in RECORDINGS if path.name == "four_methods")
    framed = framed_copy(plain, tmp_path / "framed")
    sizes = [files.bytes_of(open_recording(path)) for path in (plain, framed)]
    assert 0.7 < sizes[1] / sizes[0] < 1.4


@pytest.mark.usefixtures("large")
def test_several_at_once(recording: Recording) -> None:
    """Each has its answer, and what is kept in the end is whole."""
    by = ["method", "process", "device", "file", "size"]
    expected = {name: summed_up(recording, name, cached=False) for name in by}
    with ThreadPoolExecutor(len(by)) as several:
        found = list(several.map(lambda name: summed_up(recording, name), by * 2))
    assert found == [expected[name] for name in by * 2]
    kept = [KEPT, SUMMARIES.format(Op.SYNC)]
    assert sorted(path.name for path in recording.path.glob(".*")) == kept
    assert summed_up(recording, "method") == expected["method"]
