# SPDX-License-Identifier: Apache-2.0
"""Output that is damaged, forged, or none: counted and said, or refused; never a crash."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from iostrata.cli import status_of
from iostrata.errors import STATUS_LOSSES, RecordingError
from iostrata.recording import RecordedMachine, open_recording, write_recording_json
from iostrata.script.words import WORDS
from tests.builder import TraceBuilder
from tests.fuzz.lawful import check
from tests.script.printed import BEGIN, printed
from tests.script.test_truth import commits, imported, writes

EXTREMES = (
    "0", "-1", "1", "4096", "65535", "65536", "2147483648", "4294967296", "1099511627775",
    "1152921504606846975", "9223372036854775807", "9223372036854775808", "18446744073709551615",
    "1e9", "0x10", "٣", "", "W", "FWFSM", "RWBS", "nan", "9" * 5000,
)  # fmt: skip


def mutated(text: str, random: Random) -> bytes:
    """A few cells, lines or bytes are others."""
    lines = text.split("\n")
    for _ in range(random.randint(1, 12)):
        row = random.randrange(len(lines))
        kind = random.random()
        if kind < 0.6:
            cells = lines[row].split(" ")
            cells[random.randrange(len(cells))] = random.choice(EXTREMES)
            lines[row] = " ".join(cells)
        elif kind < 0.75:
            del lines[row]
            lines.append("")
        elif kind < 0.9:
            lines.insert(random.randrange(len(lines)), lines[row])
        else:
            lines[row] = lines[row][: random.randint(0, len(lines[row]))]
    data = bytearray("\n".join(lines).encode())
    for _ in range(random.choice((0, 0, 3))):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data[: random.choice((len(data), random.randrange(len(data))))])


def test_two_outputs_in_one_file_are_not_counted_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.txt"
    file.write_text(printed(writes()[0]) * 2)
    status = status_of(["import", str(file), "-o", str(tmp_path / "recording")])
    assert status == RecordingError.status
    assert "more than one output of iostrata.bt" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(24))
def test_it_is_imported_or_refused(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    world, _ = (writes, commits)[seed % 2]()
    file, directory = tmp_path / "out.txt", tmp_path / "recording"
    file.write_bytes(mutated(printed(world), random))
    status = status_of(["import", str(file), "-o", str(directory)])
    assert status in (0, STATUS_LOSSES, RecordingError.status)
    if status != RecordingError.status:
        assert check(directory, tmp_path, seed) in ("analysed", "refused")
    else:
        assert not directory.exists()


def test_every_cell_of_every_word_may_be_anything(tmp_path: Path) -> None:
    """One line after the other with one cell that cannot be: all are counted, none is believed."""
    lines = printed(writes()[0]).split("\n") + printed(commits()[0]).split("\n")
    samples = {line.split(" ")[0].rpartition(":")[2]: line for line in lines}
    bad = []
    for word in WORDS.keys() & samples.keys():
        cells = samples[word].split(" ")
        for place in range(1, len(cells)):
            bad.append(" ".join([*cells[:place], "x-", *cells[place + 1 :]]))
        bad += [" ".join(cells[:-1]), " ".join([*cells, "0"])]
    assert len(bad) > 100
    good = printed(writes()[0])
    text = good.replace("begun\n", "begun\n" + "\n".join(bad) + "\n")
    found = open_recording(imported(text, tmp_path, status=STATUS_LOSSES))
    (trace,) = found.traces()
    assert trace.env["bad_lines"] == len(bad)
    assert trace.env["first_bad_line"] == 1 + BEGIN.count("\n")
    (line,) = [line for line in trace.damage if "could not be read" in line]
    assert line.startswith(f"{len(bad)} lines")
    assert trace.event_count == _count(good)


def _new(place: Path) -> Path:
    (place / "good").mkdir()
    return place / "good"


def _count(text: str) -> int:
    """Numbered lines, and three that the importer adds: a clock sample, a count, an end."""
    words = (*WORDS, "thread")
    return 3 + sum(line.split(" ")[0].rpartition(":")[2] in words for line in text.split("\n"))


def test_times_that_cannot_be_are_bad(tmp_path: Path) -> None:
    """A call that ends before it began, a wake-up after the thread ran again."""
    text = BEGIN + (
        "tracepoint:syscalls:sys_exit_fsync 0 0 1 1000 2000 1 2 3 0 0 0 0 0\n"
        "sched_resume 1 0 1 1000 900 2 1001 0 0\n"
        "sched_resume 2 0 1 1000 0 2 900 0 0\n"
        "end 3000\n@n[0]: 3\n"
    )
    (trace,) = open_recording(imported(text, tmp_path, status=STATUS_LOSSES)).traces()
    assert trace.env["bad_lines"] == 3
    assert sum(trace.lost_by_point.values()) == 3


def test_what_bpftrace_says_it_lost_is_missing(tmp_path: Path) -> None:
    """More than the numbers show: of that it is not known when."""
    text = printed(writes()[0]) + "Lost 12 events\n"
    (trace,) = open_recording(imported(text, tmp_path)).traces()
    assert any(line.startswith("12 more events") for line in trace.damage)


def test_facts_that_were_cut_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(writes()[0]).replace("/dev/vda1 rw\nbegun\n", "/dev/vbegun\n")
    (trace,) = open_recording(imported(text, tmp_path)).traces()
    assert "--mountinfo" in capsys.readouterr().err
    assert len(trace.facts.mounts) == 1
    mounts, disks = tmp_path / "mountinfo", tmp_path / "diskstats"
    mounts.write_text("28 1 254:1 / /data rw,relatime - xfs /dev/vda1 rw\n")
    disks.write_text(" 254       0 vdx 1 2 3 4 5 6 7 8 9 0 1\n 254       1 vdx1 1 2 3 4\n")
    options = ("--mountinfo", str(mounts), "--diskstats", str(disks))
    place = _new(tmp_path)
    (trace,) = open_recording(imported(text, place, *options)).traces()
    assert "--mountinfo" not in capsys.readouterr().err
    assert trace.facts.file_system(254 << 20 | 1) == "xfs"
    assert trace.facts.disk_of(254 << 20 | 1) == 254 << 20
    assert trace.facts.device_name(254 << 20) == "vdx"


@pytest.mark.parametrize(
    "text", ["", "hello\n", "iostrata.bt 1 x y\n", "iostrata.bt 2 1000 1.000000\n", "\0" * 9000]
)
def test_what_is_no_output_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    file.write_text(text)
    directory = tmp_path / "recording"
    assert status_of(["import", str(file), "-o", str(directory)]) == RecordingError.status
    assert not directory.exists()


def test_an_older_recording_goes_when_there_is_another(tmp_path: Path) -> None:
    bad, older = tmp_path / "out.txt", tmp_path / "older"
    bad.write_text("hello\n")
    TraceBuilder().add("recorder", time_ns=5).write(older / "local")
    write_recording_json(older, (RecordedMachine("local", "local", "local"),), created="")
    before = {path: path.read_bytes() for path in older.rglob("*") if path.is_file()}
    status = status_of(["import", str(bad), "-o", str(older), "--force"])
    assert status == RecordingError.status
    assert {path: path.read_bytes() for path in older.rglob("*") if path.is_file()} == before


def test_only_regular_files_of_some_size(tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(1 << 40)
    for file_name in (pipe, large, tmp_path, tmp_path / "none"):
        directory = tmp_path / "recording"
        assert status_of(["import", str(file_name), "-o", str(directory)]) == 3
        assert not directory.exists()


def test_a_recording_there_stays(tmp_path: Path) -> None:
    text = printed(writes()[0])
    imported(text, tmp_path)
    imported(text, tmp_path, status=2)
    imported(text, tmp_path, "--force")
    assert status_of(["import"]) == 2
