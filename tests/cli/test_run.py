# SPDX-License-Identifier: Apache-2.0
"""run and record, around a recorder that copies a synthetic recording: no root is needed."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from iostrata.cli import status_of
from iostrata.record import recorder
from tests.builder import TraceBuilder
from tests.cli.recordings import lossy_recording, small_recording
from tests.record.recorders import install

GOOD = 'cp -r $MACHINE/* "$directory"; tell ready; "$@"; s=$?; tell exit $s; exit $s'
EMPTY = 'tell ready; "$@"; s=$?; tell exit $s; exit $s'


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `run` makes its temporary recordings, and where it must leave nothing."""
    small_recording(tmp_path / "machine")
    monkeypatch.setenv("MACHINE", str(tmp_path / "machine"))
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.chdir(tmp_path)
    install(GOOD, tmp_path, monkeypatch)
    return place


def test_run_prints_the_table_and_leaves_nothing(
    temporary: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["run", "--", "echo", "its own output"]) == 0
    captured = capfd.readouterr()
    assert captured.out.startswith("its own output\n40 synchronous writes")
    assert captured.err.startswith("iostrata: recording\niostrata: recorded")
    assert not list(temporary.iterdir())


def test_options_of_the_command_are_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of(["run", "--quiet", "echo", "--json", "-"]) == 0
    captured = capfd.readouterr()
    assert captured.out.startswith("--json -\n40 synchronous")
    assert captured.err == ""


def test_the_command_fails(capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of(["run", "--", "sh", "-c", "exit 3"]) == 3
    captured = capfd.readouterr()
    assert "unattributed" in captured.out
    assert "the command ended with status 3" in captured.err


def test_json_alone_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of(["run", "--json", "-", "--", "true"]) == 0
    assert json.loads(capfd.readouterr().out)["writes"]["analysed"] == 40


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_keep(quiet: list[str], temporary: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of(["run", *quiet, "--keep", "--", "true"]) == 0
    (kept,) = temporary.iterdir()
    assert f"the recording is kept: iostrata replay {kept}" in capfd.readouterr().err
    assert status_of(["replay", str(kept)]) == 0


def test_the_recorder_is_asked_to_compress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(f'echo "$options" > {tmp_path}/asked; {GOOD}', tmp_path, monkeypatch)
    assert status_of(["run", "--compress", "--", "true"]) == 0
    assert "--compress" in (tmp_path / "asked").read_text().split()
    assert status_of(["run", "--", "true"]) == 0
    assert "--compress" not in (tmp_path / "asked").read_text().split()


def test_nothing_synchronous(
    temporary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    empty = tmp_path / "empty"
    TraceBuilder().write(empty)
    monkeypatch.setenv("MACHINE", str(empty))
    assert status_of(["run", "--", "true"]) == 5
    assert "no synchronous write" in capfd.readouterr().err
    assert status_of(["run", "--", "sh", "-c", "exit 3"]) == 3
    assert not list(temporary.iterdir())


def test_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MACHINE", str(lossy_recording(tmp_path / "lossy")))
    assert status_of(["run", "--", "true"]) == 7
    assert "left out" in capfd.readouterr().out


def test_the_recorder_fails(
    temporary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    install("tell failed out of luck; exit 125", tmp_path, monkeypatch)
    assert status_of(["run", "--", "true"]) == 6
    assert capfd.readouterr().err.startswith("iostrata: the recorder: out of luck\n  try: ")
    assert not list(temporary.iterdir())


def test_the_recorder_refuses_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As one on another machine may, of which nothing can be known before."""
    install("tell failed '--pid 7: no such process'; exit 125", tmp_path, monkeypatch)
    assert status_of(["run", "--", "true"]) == 2
    assert capfd.readouterr().err.endswith(
        "iostrata: the recorder: --pid 7: no such process\n  try: leave --pid out, or correct it\n"
    )


def test_the_recorder_is_killed_and_what_it_wrote_is_kept(
    temporary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    install('cp -r $MACHINE/* "$directory"; tell ready; kill -KILL $$', tmp_path, monkeypatch)
    assert status_of(["run", "--", "true"]) == 6
    (kept,) = temporary.iterdir()
    assert f"iostrata replay {kept}" in capfd.readouterr().err
    assert status_of(["replay", str(kept)]) == 0


@pytest.mark.parametrize(
    ("command", "status", "story"),
    [
        ("nonexistent-command", 127, "nonexistent-command: command not found"),
        ("/nonexistent/command", 127, "/nonexistent/command: command not found"),
        ("./machine/metadata", 126, "may not be executed"),
        ("./machine", 126, "may not be executed"),
    ],
)
def test_no_such_command(
    command: str, status: int, story: str, temporary: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["run", "--", command]) == status
    assert story in capfd.readouterr().err
    assert not list(temporary.iterdir())


def test_a_program_of_postgresql_is_found_where_debian_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for version in ("9.6", "15", "8"):
        program = tmp_path / "postgresql" / version / "bin" / "pg_test_fsync"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setattr(recorder, "POSTGRESQL", tmp_path / "postgresql")
    output = tmp_path / "recording"
    assert status_of(["record", "-o", str(output), "--", "pg_test_fsync", "-s", "1"]) == 0
    command = json.loads((output / "recording.json").read_text())["command"]
    assert command == [str(tmp_path / "postgresql/15/bin/pg_test_fsync"), "-s", "1"]


def test_a_user_that_does_not_exist(capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of(["run", "--user", "nobody-at-all", "--", "true"]) == 2
    assert "there is no such user\n  try: " in capfd.readouterr().err
    assert status_of(["run", "--user", "root", "--comm", "x", "--duration", "1"]) == 2
    assert "there is none" in capfd.readouterr().err


def test_what_was_refused_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "recording"
    install("tell failed out of luck; exit 125", tmp_path, monkeypatch)
    assert status_of(["record", "-o", str(output), "--", "true"]) == 6
    assert not output.exists()


@pytest.mark.parametrize("size", [0, 4096, 8192])
def test_a_disk_that_was_full_from_the_start_is_no_obstacle(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that had room was a part of what describes the events, of which there is none."""
    output = tmp_path / "recording"
    written = f"head -c {size} $MACHINE/metadata >$directory/metadata"
    more = "mkdir $directory/facts; touch $directory/facts/block $directory/cpu_0" if size else ":"
    failing = f"{written}; {more}; tell failed No space left; exit 125"
    install(failing, tmp_path, monkeypatch)
    assert status_of(["record", "-o", str(output), "--", "true"]) == 6
    assert not output.exists()
    install(GOOD, tmp_path, monkeypatch)
    assert status_of(["record", "-o", str(output), "--", "true"]) == 0


def test_record_then_replay(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "recording"
    assert status_of(["record", "-o", str(output), "--", "true"]) == 0
    captured = capfd.readouterr()
    assert captured.out == ""
    assert f"iostrata replay {output}" in captured.err
    found = json.loads((output / "recording.json").read_text())
    assert found["command"] == ["true"]
    assert found["exit_status"] == 0
    assert status_of(["replay", str(output)]) == 0


def test_several_runs_side_by_side(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    again = ["record", "-o", before, "--repeat", "3"]
    assert status_of([*again, "--", "true"]) == 0
    err = capfd.readouterr().err
    assert "iostrata: run 3 of 3\n" in err
    assert f"to compare it with others: iostrata compare {before} OTHER" in err
    assert sorted(path.name for path in Path(before).iterdir()) == ["1", "2", "3"]
    assert status_of(["record", "-q", "-o", after, "--repeat", "12", "--", "true"]) == 0
    assert sorted(path.name for path in Path(after).iterdir())[:2] == ["01", "02"]
    capfd.readouterr()
    assert status_of(["compare", before, after]) == 0
    assert "120 writes in 3 runs of A, 480 writes in 12 runs of B" in capfd.readouterr().out
    assert status_of([*again, "--", "true"]) == 2
    assert "holds 3 recordings already" in capfd.readouterr().err
    # Older ones never count among the new.
    assert status_of(["record", "-o", after, "--repeat", "2", "--force", "--", "true"]) == 0
    assert sorted(path.name for path in Path(after).iterdir()) == ["1", "2"]


def test_run_repeats_and_prints_one_table(
    tmp_path: Path, temporary: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    assert status_of(["run", "--repeat", "3", "-o", before, "--", "true"]) == 0
    captured = capfd.readouterr()
    assert "iostrata: run 3 of 3\n" in captured.err
    assert captured.out.startswith("all: 3 runs, 40 writes in each\n")
    # They are copies of one recording: no run differs from the next.
    total = captured.out.splitlines()[2].split()
    assert total[:3] == ["total", "mean", "100.0%"]
    assert len(set(total[3:])) == 1
    assert len(total) == 8
    assert status_of(["run", "-q", "--repeat", "2", "-o", after, "--", "true"]) == 0
    capfd.readouterr()
    assert status_of(["compare", before, after]) == 0
    assert "120 writes in 3 runs of A, 80 writes in 2 runs of B" in capfd.readouterr().out
    assert status_of(["run", "-q", "--repeat", "2", "--by", "method", "--", "true"]) == 0
    assert "\nfdatasync: 2 runs, 20 writes in each\n" in capfd.readouterr().out
    assert not list(temporary.iterdir())


def test_a_series_has_one_table_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of(["run", "--repeat", "2", "--json", "-", "--", "true"]) == 2
    assert "--repeat prints one table" in capfd.readouterr().err
    once = tmp_path / "once"
    fails = f"test ! -e {once} || exit 3; touch {once}"
    assert status_of(["run", "--repeat", "4", "--", "sh", "-c", fails]) == 3
    captured = capfd.readouterr()
    assert "the command ended with status 3" in captured.err
    assert "run 3 of 4" not in captured.err
    assert captured.out == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_several_runs_are_the_users_who_called_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setenv("SUDO_GID", "1235")
    output = tmp_path / "series"
    assert status_of(["record", "-q", "-o", str(output), "--repeat", "2", "--", "true"]) == 0
    assert {path.stat().st_uid for path in (output, *output.rglob("*"))} == {1234}


def test_the_first_run_that_fails_is_the_last(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output, once = tmp_path / "series", tmp_path / "once"
    fails = f"test ! -e {once} || exit 3; touch {once}"
    assert status_of(["record", "-o", str(output), "--repeat", "4", "--", "sh", "-c", fails]) == 3
    assert sorted(path.name for path in output.iterdir()) == ["1", "2"]
    assert "the command ended with status 3" in capfd.readouterr().err


def test_what_is_no_series_is_never_removed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    precious = tmp_path / "precious"
    assert status_of(["record", "-q", "-o", str(precious), "--repeat", "2", "--", "true"]) == 0
    (precious / "1" / "thesis").write_text("all of it")
    (precious / "notes").write_text("some of it")
    arguments = ["record", "-o", str(precious), "--repeat", "2", "--force", "--", "true"]
    assert status_of(arguments) == 2
    assert "is not empty, and no recording" in capfd.readouterr().err
    assert (precious / "1" / "thesis").read_text() == "all of it"
    assert (precious / "notes").exists()


def test_an_older_recording_is_overwritten_on_demand_only(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["record", "-o", str(tmp_path / "recording")]
    assert status_of([*arguments, "--", "true"]) == 0
    assert status_of([*arguments, "--", "true"]) == 2
    assert "holds a recording already" in capfd.readouterr().err
    assert status_of([*arguments, "--force", "--", "true"]) == 0


def test_what_is_no_recording_is_never_removed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    precious = tmp_path / "home"
    precious.mkdir()
    (precious / "thesis").touch()
    assert status_of(["record", "-o", str(precious), "--force", "--", "true"]) == 2
    assert "is not empty, and no recording" in capfd.readouterr().err
    assert (precious / "thesis").exists()
    assert status_of(["record", "-o", str(precious / "thesis"), "--", "true"]) == 2
    (precious / "link").symlink_to("nowhere")
    assert status_of(["record", "-o", str(precious / "link"), "--", "true"]) == 2
    assert "is a link to nowhere, which does not exist" in capfd.readouterr().err
