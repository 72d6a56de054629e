# SPDX-License-Identifier: Apache-2.0
"""Files that commands write: whole, or as they were; the error names the file."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from iostrata.cli import status_of
from iostrata.cli.output import replacing
from tests.cli.recordings import small_recording


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(small_recording(tmp_path_factory.mktemp("recording") / "machine"))


def run_out_of_room(*words: str) -> subprocess.CompletedProcess[str]:
    """A file may have one block of 1024 bytes, and no more; -B: what is compiled would be one."""
    limited = 'ulimit -f 1; exec "$@"'
    return subprocess.run(
        ["bash", "-c", limited, "bash", sys.executable, "-B", "-m", "iostrata", *words],
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


KILLED = """
import os, pathlib, signal, sys
from iostrata.cli.output import replacing
with replacing(pathlib.Path(sys.argv[1])) as part:
    part.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("before", [True, False])
def test_who_is_killed_leaves_nothing_beside_the_file(*, before: bool, tmp_path: Path) -> None:
    file = tmp_path / "file"
    if before:
        file.write_text("precious")
    done = subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [one.read_text() for one in tmp_path.iterdir()] == ["precious"] * before


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_file_is_made_where_a_file_system_has_none_without_a_name(
    *, unnamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS has none; what is made is as others are."""
    real = os.open

    def refuse(path: Any, flags: int, *others: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real(path, flags, *others, **more)

    if not unnamed:
        monkeypatch.setattr(os, "open", refuse)
    file, plain = tmp_path / "file", tmp_path / "plain"
    plain.write_text("")
    for text in ("first", "second"):
        with replacing(file) as part:
            part.write_text(text)
        assert file.read_text() == text
        assert file.stat().st_mode == plain.stat().st_mode
    with pytest.raises(ZeroDivisionError), replacing(file) as part:
        part.write_text(str(1 // 0))
    assert file.read_text() == "second"
    assert sorted(tmp_path.iterdir()) == [file, plain]
