# SPDX-License-Identifier: Apache-2.0
"""timeline: from the command line, in good recordings and in bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iostrata.cli import status_of
from iostrata.recording import FILE_NAME
from tests.builder import TraceBuilder
from tests.cli.recordings import WRITES, lossy_recording, small_recording


@pytest.fixture
def recording(tmp_path: Path) -> str:
    return str(small_recording(tmp_path / "machine"))


def test_median_and_tail_unless_told(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["timeline", recording]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert f"write {2 * WRITES - 1} of {2 * WRITES}, p50\n" in captured.out
    assert f"write {2 * WRITES} of {2 * WRITES}, p99, slowest\n" in captured.out
    assert max(map(len, captured.out.splitlines())) <= 80


def test_the_same_bytes_each_time(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = set()
    for _ in range(2):
        assert status_of(["timeline", recording, "--slowest", "3", "--by", "method"]) == 0
        outputs.add(capsys.readouterr().out)
    assert len(outputs) == 1


def test_json_instead_and_beside(
    recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["timeline", recording, "--id", "2", "--json", "-"]) == 0
    text = capsys.readouterr().out
    assert json.loads(text)["writes"][0]["of"] == 2 * WRITES
    file = tmp_path / "out.json"
    assert status_of(["timeline", recording, "--id", "2", "--json", str(file)]) == 0
    assert file.read_text() == text
    assert ": write 2 of " in capsys.readouterr().out


def test_losses_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["timeline", str(lossy_recording(tmp_path / "machine"))]) == 7
    assert "lost        local:block_rq_issue (3)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "story"),
    [
        (["--near", "soon"], "'soon' is no percentile"),
        (["--id", "0"], "there is no write 0"),
        (["--id", "9999"], "writes are 1 to 40"),
        (["--slowest", "-1"], "Invalid value for '--slowest'"),
        (["--slowest", "0"], "Invalid value for '--slowest'"),
        (["--json", "/nonexistent/file"], "no directory /nonexistent"),
        (["--json", "/"], "/ is a directory"),
    ],
)
def test_bad_wishes(
    arguments: list[str], story: str, recording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["timeline", recording, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert story in captured.err


def test_bad_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    TraceBuilder().write(empty)
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / FILE_NAME).write_text('{"format": "iostrata.recording/99"}')
    for path, status in ((empty, 5), (newer, 3), (tmp_path, 3), (tmp_path / "none", 3)):
        assert status_of(["timeline", str(path)]) == status
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("iostrata: ")
        assert "\n  try: " in captured.err
