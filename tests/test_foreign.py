# SPDX-License-Identifier: Apache-2.0
"""Names, paths and arguments of any bytes: nothing crashes, and nothing of them is obeyed."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path

import pytest

from iostrata.cli import status_of
from iostrata.foreign import MOST_SHOWN, cell, lines, shown
from iostrata.recording import RecordedMachine, open_recording, write_recording_json
from iostrata.trace import read_trace
from tests.synthetic import O_DSYNC, Request, World, Writer, device, write

WORDS = ("cp", "gr\udcfc", "grün", "a\x1b]0;title\x07b", "\ud83d\ude00")
LOCAL = RecordedMachine("local", "local", "local")


BAD = "=1+1\x1b[2J\udcff"


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """A write of a process that has an escape sequence and a formula in its name, as all has
    that is known of its machine."""
    world = World()
    disk = device(8, 0)
    writer = Writer(world, 100, disk, 1_000)
    world.target(100, 2, comm=os.fsencode(BAD))
    writer.enter()
    writer.cpu(100)
    writer.data(Request())
    writer.leave("write", flags=O_DSYNC, result=8192, size=8192)
    facts = world.builder.mount(disk, f"/{BAD}", "ext4", f"/dev/{BAD}", BAD)
    facts.block(disk, BAD, scheduler=BAD, write_cache=BAD, transport=BAD).vmm(100, BAD)
    return write(world, tmp_path / "named")


def test_arguments_of_any_bytes_come_back(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    words = tuple(word.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
                  for word in WORDS)  # fmt: skip
    write_recording_json(tmp_path, (LOCAL,), created="", command=words)
    assert open_recording(tmp_path).command == words
    (tmp_path / "recording.json").read_text(encoding="utf-8")


def test_what_a_recording_calls_its_machines_is_letters(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    machine = RecordedMachine("a\x1b[2J", "local", "local", note="\x9b31m")
    write_recording_json(tmp_path, (machine,), created="")
    (found,) = open_recording(tmp_path).machines
    assert (found.name, found.note) == (r"a\x1b[2J", r"\x9b31m")


def test_a_command_that_is_no_text_does_not_hide_the_trace(named: Path) -> None:
    """It was cut within a character, or is of another encoding."""
    text = (named / "metadata").read_bytes()
    sealed = text.index(b"\n/* crc32")
    changed = text[:sealed].replace(b"env {", b'env {\n\tcommand = "cp gr\xc3";', 1)
    (named / "metadata").write_bytes(changed)
    assert read_trace(named).env["command"] == "cp gr\udcc3"


def test_no_report_holds_what_a_terminal_obeys(
    named: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, rows = tmp_path / "page.html", tmp_path / "rows.csv"
    outputs = []
    for words in (
        ["replay", str(named), "--by", "process"],
        ["replay", str(named), "--by", "process", "--csv", "-"],
        ["replay", str(named), "--by", "process", "--json", "-"],
        ["timeline", str(named)],
        ["dump", str(named)],
        ["html", str(named), "-o", str(page)],
        ["export", str(named), "--csv", str(rows)],
    ):
        assert status_of(words) in (0, 7), words
        outputs.append(capsys.readouterr().out)
    outputs += [page.read_text(), rows.read_text()]
    for text in outputs:
        assert all(one.isprintable() or one == "\n" for one in text)
    for text in (outputs[1], rows.read_text()):
        cells = [each for row in csv.reader(io.StringIO(text)) for each in row]
        assert "'=1+1\\x1b[2J\\xff (100)" in cells


def test_errors_hold_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("\x1b[2Jx", "gr\udcfc"):
        assert status_of(["replay", name]) == 3
        said = capsys.readouterr().err
        assert "\x1b" not in said
        assert "\udcfc" not in said


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\ta", "\ra"])
def test_a_cell_is_no_formula(text: str) -> None:
    assert cell(text).startswith("'")
    assert cell("a=1") == "a=1"


def test_lines_stay_lines() -> None:
    assert lines("a\nb\x1b") == "a\nb\\x1b"


@pytest.mark.skipif(sys.platform != "linux", reason="names of bytes")
def test_a_path_of_any_bytes_can_be_printed(
    named: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = named.rename(named.parent / "gr\udcfc")
    assert status_of(["replay", str(path), "--json", str(path / "x\udcff.json")]) in (0, 7)
    assert status_of(["estimate", str(path)]) in (0, 3, 5, 7)
    assert status_of(["compare", str(path), str(path)]) in (0, 7)
    # A long path goes on in another line.
    assert r"gr\xfc" in "".join(capsys.readouterr().out.split())
    page = path / "x\udcff.html"
    assert status_of(["html", str(path), "-o", str(page)]) in (0, 7)
    assert r"<title>iostrata: gr\xfc</title>" in page.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="names of bytes")
def test_a_table_has_a_name_of_any_bytes(named: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    files = [str(tmp_path / f"{name}\udcff") for name in ("writes", "spans")]
    words = ["export", str(named), "--parquet", files[0], "--spans", files[1]]
    assert status_of(words) in (0, 7)
    for file in files:
        assert Path(file).read_bytes()[-4:] == b"PAR1"


def test_what_was_chosen_is_told_in_letters(
    named: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--file", "*", "--file", "\udcff\n", "--process", BAD, "--json", "-"]
    assert status_of(["replay", str(named), *words]) in (0, 7)
    told = json.loads(capsys.readouterr().out)["quality"]["selection"]["by"]
    assert told == [f"of process {shown(BAD)}", r"to file * or \xff\n"]


def test_a_path_with_a_line_in_it_is_told_on_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, escaped = tmp_path / "a\nb", rf"{tmp_path}/a\nb"
    assert status_of(["replay", str(path)]) == 3
    assert capsys.readouterr().err.startswith(f"iostrata: {escaped} does not exist\n")
    path.mkdir()
    assert status_of(["replay", str(path)]) == 3
    assert capsys.readouterr().err.startswith(f"iostrata: {escaped} is no recording")
    assert status_of(["replay", "x", "--json", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"iostrata: {escaped} is a directory\n")
    assert status_of(["replay", "x", "--json", str(path / "b" / "c")]) == 2
    assert f"{escaped}/b/c: there is no directory {escaped}/b\n" in capsys.readouterr().err


def test_what_is_long_is_shown_up_to_where_anybody_reads() -> None:
    assert len(shown("\x00" * 100_000)) < 5 * MOST_SHOWN
    assert shown("a" * MOST_SHOWN) == "a" * MOST_SHOWN
