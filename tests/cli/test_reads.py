# SPDX-License-Identifier: Apache-2.0
"""Every way to look at a recording, for reads: what served each is known, and must be told."""

from __future__ import annotations

import csv
import json
import re
import tempfile
from pathlib import Path

import pytest

from iostrata.cli import status_of
from iostrata.recording import RecordedMachine, write_recording_json
from tests.cli.recordings import small_recording
from tests.reading import Reader, reading_world
from tests.record.recorders import install
from tests.synthetic import device, write

DISK = device(8, 0)
PAGE = 4096
READS = 10
RECORDER = 'cp -r $MACHINE/* "$directory"; tell ready; "$@"; s=$?; tell exit $s; exit $s'


def recorded(directory: Path, missed: int, device_ns: int = 30_000) -> Path:
    """Ten reads, the first of them from the device; each of the others a page that is there."""
    world = reading_world()
    world.builder.block(DISK, "sda")
    reader = Reader(world, 100, DISK, 10_000)
    for number in range(missed):
        reader.missed(number * PAGE, PAGE, device=device_ns)
    for _ in range(READS - missed):
        reader.cached(0, PAGE)
    assert reader.served == ["device"] * missed + ["page cache"] * (READS - missed)
    return write(world, directory)


def series(directory: Path, *missed: int) -> str:
    machine = RecordedMachine("local", "local", "local")
    directory.mkdir()
    for number, few in enumerate(missed):
        run = directory / str(number + 1)
        recorded(run / "local", few)
        write_recording_json(run, (machine,), created=f"2026-11-21T10:0{number}:00+00:00")
    return str(directory)


def test_what_was_not_found_is_called_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = str(recorded(tmp_path / "a", 2))
    for command in ("replay", "timeline"):
        assert status_of([command, directory, "--op", "read", "--file", "nosuch"]) == 5
        told = capsys.readouterr().err
        assert f"none of the {READS} reads is to file nosuch" in told
        assert "iostrata replay DIR --op read --by file" in told


def test_compare_has_what_served_the_reads_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = series(tmp_path / "a", 2, 4), series(tmp_path / "b", 7, 8)
    assert status_of(["compare", a, b, "--op", "read"]) == 0
    out = capsys.readouterr().out
    assert "all: 20 reads in 2 runs of A, 20 reads in 2 runs of B\nus a read " in out
    assert re.search(r"^  device.read .*\+", out, re.MULTILINE)
    # What the device served took 0.7 and 0.9 on the CPU, 0.3 queued, 30 there, 3 until it ran.
    assert re.search(r"^device +30\.0% +75\.0% +\+45\.0% +34\.90 +34\.90$", out, re.MULTILINE)
    assert re.search(r"^page cache +70\.0% +25\.0% +-45\.0% +1\.50 +1\.50$", out, re.MULTILINE)
    assert "write" not in out
    assert status_of(["compare", a, b, "--op", "read", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["op"] == "read"
    (group,) = document["groups"]
    assert group["served"] == [
        {"name": "page cache", "a": 0.7, "b": 0.25, "change": -0.45, "runs_a": [0.8, 0.6],
         "runs_b": [0.3, 0.2], "mean_a_ns": 1_500, "mean_b_ns": 1_500},
        {"name": "device", "a": 0.3, "b": 0.75, "change": 0.45, "runs_a": [0.2, 0.4],
         "runs_b": [0.7, 0.8], "mean_a_ns": 34_900, "mean_b_ns": 34_900},
    ]  # fmt: skip


def test_compare_where_one_side_has_a_place_that_the_other_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = series(tmp_path / "a", 0, 0), series(tmp_path / "b", 0, 5)
    assert status_of(["compare", a, b, "--op", "read"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^device +0\.0% +25\.0% +\+25\.0% +- +34\.90$", out, re.MULTILINE)
    assert status_of(["compare", b, b, "--op", "read", "--by", "served"]) == 0
    out = capsys.readouterr().out
    assert "page cache: 15 reads in 2 runs of A, 15 reads in 2 runs of B" in out
    assert "not in all  device: only some runs have it" in out
    assert "served from" not in out


def test_compare_of_writes_says_nothing_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(small_recording(tmp_path / "machine"))
    assert status_of(["compare", path, path]) == 0
    assert "served" not in capsys.readouterr().out
    assert status_of(["compare", path, path, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "op" not in document
    assert "served" not in document["groups"][0]


def test_runs_of_reads_have_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MACHINE", str(recorded(tmp_path / "machine", 4)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    install(RECORDER, tmp_path, monkeypatch)
    assert status_of(["run", "-q", "--repeat", "2", "--op", "read", "--", "true"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("all: 2 runs, 10 reads in each\nus a read ")
    assert re.search(r"^device +40\.0% +34\.90 +40\.0% +40\.0%$", out, re.MULTILINE)
    assert status_of(["run", "-q", "--repeat", "2", "--op", "all", "--", "true"]) == 2
    assert "give --op sync, read or direct" in capfd.readouterr().err


def test_a_page_of_reads(tmp_path: Path) -> None:
    recording, file = recorded(tmp_path / "machine", 3), tmp_path / "page.html"
    assert status_of(["html", str(recording), "--op", "read", "-o", str(file), "-q"]) == 0
    text = file.read_text()
    assert "<h1>10 reads by " in text
    assert "<tr><td>page cache</td><td>7</td><td>70.0%</td><td>1.50</td></tr>" in text
    assert "<tr><td>device</td><td>3</td><td>30.0%</td><td>34.90</td></tr>" in text
    assert '<a href="#served">Served from</a>' in text
    assert "on sda, served from device</p>" in text
    told = re.sub(r"<(style|script)[^>]*>.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)
    assert not re.search(r"\bwrites\b|\b[Ww]rite [0-9]|\ba write spends|\bmean write\b", told)
    assert '"word":"read"' in text


def test_a_page_of_writes_has_no_such_part(tmp_path: Path) -> None:
    recording, file = small_recording(tmp_path / "machine"), tmp_path / "page.html"
    assert status_of(["html", str(recording), "-o", str(file), "-q"]) == 0
    text = file.read_text()
    assert "Where a write spends its time" in text
    assert "served" not in text


def test_rows_of_reads_say_what_served_each(tmp_path: Path) -> None:
    recording, file = recorded(tmp_path / "machine", 3), tmp_path / "reads.csv"
    assert status_of(["export", str(recording), "--op", "read", "--csv", str(file), "-q"]) == 0
    with file.open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert [row["served"] for row in rows] == ["device"] * 3 + ["page cache"] * 7
    for row in rows:
        layers = ("syscall_ns", "read_cached_ns", "wakeup_interrupt_ns", "wakeup_runqueue_ns",
                  "block_Q2D_ns", "device_read_ns", "unattributed_ns")  # fmt: skip
        assert sum(int(row[name]) for name in layers) == int(row["latency_ns"])
    assert [row["device_read_ns"] for row in rows] == ["30000"] * 3 + ["0"] * 7
    writes = tmp_path / "writes.csv"
    small = str(small_recording(tmp_path / "small"))
    assert status_of(["export", small, "--csv", str(writes), "-q"]) == 0
    assert "served" not in writes.read_text().partition("\n")[0].split(",")


def test_a_timeline_says_what_served_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = str(recorded(tmp_path / "machine", 1))
    wish = ["timeline", recording, "--op", "read", "--id", "1", "--id", "2"]
    assert status_of(wish) == 0
    out = capsys.readouterr().out
    assert " ".join(out.split()).count("served from device") == 1
    assert " ".join(out.split()).count("served from page cache") == 1
    assert status_of([*wish, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["served"] for one in document["writes"]] == ["device", "page cache"]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["html", "R", "-o", "x", "--op", "all"], 2, "--op all: this shows one kind at a time"),
        (["export", "R", "--csv", "x", "--op", "all"], 2, "this shows one kind at a time"),
        (["compare", "R", "R", "--op", "all"], 2, "this shows one kind at a time"),
        (["timeline", "R", "--op", "all"], 2, "this shows one kind at a time"),
        (["replay", "R", "--op", "all", "--json", "-"], 2, "--json and --csv are of one kind"),
        (["timeline", "R", "--op", "read", "--by", "served"], 2, "--by served: what served"),
        (["html", "W", "-o", "x", "--op", "read"], 5, "holds no reads: it was not asked"),
        (["export", "W", "--csv", "x", "--op", "direct"], 5, "holds no reads with O_DIRECT"),
        (["compare", "R", "W", "--op", "read"], 5, "W: the recording holds no reads"),
        (["compare", "R", "R", "--by", "served"], 5, "R: the recording holds no synchronous"),
    ],
)
def test_what_cannot_be_shown_is_no_table(
    words: list[str],
    status: int,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    recorded(tmp_path / "R", 2)
    small_recording(tmp_path / "W")
    assert status_of(words) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert told in captured.err
    assert "\n  try: " in captured.err
    assert not (tmp_path / "x").exists()
