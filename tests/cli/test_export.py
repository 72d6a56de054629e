# SPDX-License-Identifier: Apache-2.0
"""export: what it writes where, and what it refuses to."""

from __future__ import annotations

import builtins
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iostrata import cli
from iostrata.cli import export as command
from iostrata.cli import status_of
from tests.analysis.test_left_over import NFS, commit_call, sleeper
from tests.cli.recordings import WRITES, lossy_recording, small_recording
from tests.synthetic import World, write


@pytest.fixture
def recording(tmp_path: Path) -> str:
    return str(small_recording(tmp_path / "machine"))


def test_csv_and_overwriting(
    recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.csv"
    assert status_of(["export", recording, "--csv", str(file)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"iostrata: wrote {file}\n"
    assert len(file.read_text().splitlines()) == 1 + 2 * WRITES
    file.write_text("precious")
    assert status_of(["export", recording, "--csv", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"iostrata: {file} exists already\n  try: give another name, or --force\n"
    )
    assert file.read_text() == "precious"
    assert status_of(["export", recording, "--csv", str(file), "--force", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert file.read_text().startswith("id,machine,begin_ns")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["machine", "out.csv"]


def test_csv_on_standard_output(
    recording: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of(["export", recording, "--csv", "-"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 1 + 2 * WRITES
    assert not Path("-").exists()


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_what_standard_output_has_already_is_kept(
    recording: str, tmp_path: Path, name: str
) -> None:
    log = tmp_path / "log"
    log.write_text("kept\n")
    command = [sys.executable, "-m", "iostrata", "export", recording, "--csv", name, "--force"]
    with log.open("a") as out:
        subprocess.run(command, stdout=out, check=True)
    kept, *lines = log.read_text().splitlines()
    assert (kept, len(lines)) == ("kept", 1 + 2 * WRITES)


def test_what_a_link_leads_to_is_written(recording: str, tmp_path: Path) -> None:
    """``/dev/stdout`` is one, and must stay one."""
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to("target")
    assert status_of(["export", recording, "--csv", str(tmp_path / "link"), "--force"]) == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text().count("\n") == 1 + 2 * WRITES


def test_perfetto_holds_the_first_writes_unless_told(
    recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    pytest.importorskip("perfetto")
    monkeypatch.setattr(command, "MOST", 5)
    sizes: list[int] = []
    for writes in ([], ["--writes", "1:5"], ["--writes", "7"], ["--writes", ":"]):
        file = tmp_path / f"{len(sizes)}.pftrace"
        assert status_of(["export", recording, "--perfetto", str(file), *writes]) == 0
        sizes.append(file.stat().st_size)
        told = "writes 1 to 5 of 40; --writes : for all" in capsys.readouterr().err
        assert told == (not writes)
    assert sizes[2] < sizes[0] == sizes[1] < sizes[3]


def test_all_three_at_once(recording: str, tmp_path: Path) -> None:
    pytest.importorskip("perfetto")
    pytest.importorskip("pyarrow")
    names = [str(tmp_path / name) for name in ("a", "b", "c")]
    wish = ["--perfetto", names[0], "--parquet", names[1], "--csv", names[2]]
    assert status_of(["export", recording, *wish]) == 0
    assert all(Path(name).stat().st_size for name in names)


def test_losses_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = lossy_recording(tmp_path / "machine")
    assert status_of(["export", str(recording), "--csv", str(tmp_path / "x")]) == 7
    assert "losses or damage" in capsys.readouterr().err
    assert (tmp_path / "x").exists()


@pytest.mark.parametrize("format", ["csv", "parquet", "spans", "perfetto"])
def test_what_is_left_over_is_told_as_by_replay(
    format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call of nobody on the mount where a write slept for a reason that nothing tells."""
    world = World()
    sleeper(world, NFS)
    commit_call(world, 50_000, 250_000)
    recording = str(write(world, tmp_path / "machine"))
    assert status_of(["replay", recording]) == 7
    assert status_of(["export", recording, f"--{format}", str(tmp_path / "x")]) == 7
    assert "left out or over" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "story"),
    [
        ([], "nothing to export"),
        (["--csv", "x", "--parquet", "x"], "cannot have one file"),
        (["--csv", "/nonexistent/file"], "no directory /nonexistent"),
        (["--csv", "/"], "/ is a directory"),
        (["--csv", "x", "--writes", "last"], "no range of writes"),
        (["--csv", "x", "--writes", "9:3"], "no range of writes"),
        (["--csv", "x", "--writes", "0"], "no range of writes"),
        (["--perfetto", "x", "--writes", "41:"], "there is no write 41"),
    ],
)
def test_bad_wishes(
    arguments: list[str], story: str, recording: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if "--perfetto" in arguments:
        pytest.importorskip("perfetto")
    monkeypatch.chdir(tmp_path)
    assert status_of(["export", recording, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert story in captured.err
    assert [path.name for path in tmp_path.iterdir()] == ["machine"]


@pytest.mark.parametrize(
    ("option", "package", "extra"),
    [("--perfetto", "perfetto", "[perfetto]"), ("--parquet", "pyarrow", "[parquet]")],
)
def test_packages_that_are_not_installed(
    option: str, package: str, extra: str, recording: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    import_module: Callable[..., Any] = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(f"No module named {name!r}")
        return import_module(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    assert status_of(["export", recording, option, str(tmp_path / "x")]) == 2
    error = capsys.readouterr().err
    assert "cannot be loaded: No module named" in error
    assert extra in error
    assert not (tmp_path / "x").exists()


def test_a_full_disk_leaves_no_half_file(
    recording: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(cli, "_discard_stdout", lambda: None)
    assert status_of(["export", recording, "--csv", "/dev/full", "--force"]) == 1
    assert "/dev/full: No space left on device" in capsys.readouterr().err

    def failing(path: Path, columns: object, jobs: int) -> None:
        path.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(command, "write_csv", failing)
    file = tmp_path / "out.csv"
    file.write_text("precious")
    assert status_of(["export", recording, "--csv", str(file), "--force"]) == 1
    assert f"{file}: No space left on device" in capsys.readouterr().err
    assert file.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["machine", "out.csv"]


def test_a_directory_that_is_not_writable(
    recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert status_of(["export", recording, "--csv", str(tmp_path / "x")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_bad_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["export", str(tmp_path / "none"), "--csv", str(tmp_path / "x")]) == 3
    assert not (tmp_path / "x").exists()
    assert "\n  try: " in capsys.readouterr().err
