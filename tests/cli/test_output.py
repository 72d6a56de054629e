# SPDX-License-Identifier: Apache-2.0
"""Files that commands write: whole, or as they were; the error names the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from iostrata.cli import status_of
from tests.cli.recordings import small_recording


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(small_recording(tmp_path_factory.mktemp("recording") / "machine"))


def run_out_of_room(*words: str) -> subprocess.CompletedProcess[str]:
    """A file may have one block of 1024 bytes, and then nothing more."""
    limited = 'ulimit -f 1; exec "$@"'
    return subprocess.run(
        ["bash", "-c", limited, "bash", sys.executable, "-m", "iostrata", *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        "replay DIR --json", "replay DIR --csv", "timeline DIR --json", "compare DIR DIR --json",
        "export DIR --force --csv", "export DIR --force --parquet", "export DIR --force --spans",
        "export DIR --force --perfetto", "html DIR --force -o",
    ],
)  # fmt: skip
def test_where_there_is_no_room_the_old_file_stays(
    words: str, recording: str, tmp_path: Path
) -> None:
    pytest.importorskip("perfetto")
    pytest.importorskip("pyarrow")
    file = tmp_path / "file"
    file.write_text("precious")
    done = run_out_of_room(*words.replace("DIR", recording).split(), str(file))
    assert done.returncode == 1
    assert done.stderr.startswith(f"iostrata: {file}: File too large\n")
    assert file.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [file]
    # What has nothing to do with the file is not kept back.
    assert ("unattributed" in done.stdout) == words.startswith("replay")


@pytest.mark.parametrize("option", ["--json", "--csv"])
def test_what_can_be_no_file_is_refused_before_the_work(
    option: str, recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["replay", recording, option, str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"iostrata: {tmp_path} is a directory\n  try: ")


def test_a_device_needs_no_force(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["html", recording, "-o", "/dev/null", "-q"]) == 0
    assert capsys.readouterr().err == ""
