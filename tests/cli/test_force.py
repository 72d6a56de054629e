# SPDX-License-Identifier: Apache-2.0
"""--force: an older recording goes when another one is there, and not before."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from iostrata.cli import status_of
from iostrata.recording import RecordedMachine, write_recording_json
from tests.cli.recordings import small_recording
from tests.record.far import set_up
from tests.record.recorders import install

GOOD = 'cp -r $MACHINE/* "$directory"; tell ready; "$@"; s=$?; tell exit $s; exit $s'
REFUSED = "tell failed out of luck; exit 125"
# It begins all the same, and has events by the time it ends.
INTERRUPTED = 'kill -INT $PPID; sleep 0.5; cp -r $MACHINE/* "$directory"; tell ready; sleep 1'
FORCED = ("record", "-o", "old", "--force")


@pytest.fixture(autouse=True)
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording of before, with what was made of it, and somebody's notes."""
    monkeypatch.setenv("MACHINE", str(small_recording(tmp_path / "machine")))
    monkeypatch.chdir(tmp_path)
    install(GOOD, tmp_path, monkeypatch)
    assert status_of(["record", "-q", "-o", "old", "--", "true"]) == 0
    (tmp_path / "old" / ".analysis-sync").write_text("kept")
    (tmp_path / "old" / "notes").write_text("mine")
    (tmp_path / "old" / "local").chmod(0o750)
    return tmp_path / "old"


def everything(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(directory)): (
            path.stat().st_mode,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(directory.rglob("*"))
    }


@pytest.mark.parametrize(("script", "status"), [(REFUSED, 6), (INTERRUPTED, 130)])
def test_who_was_refused_or_interrupted_has_the_older_one(
    script: str, status: int, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(script, tmp_path, monkeypatch)
    before = everything(old)
    assert status_of([*FORCED, "--", "true"]) == status
    assert everything(old) == before
    assert status_of(["run", "-o", "old", "--force", "--", "true"]) == status
    assert everything(old) == before


def test_who_was_interrupted_before_it_began_has_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(INTERRUPTED, tmp_path, monkeypatch)
    assert status_of(["record", "-o", "new", "--", "true"]) == 130
    assert "ended before anything was recorded" in capsys.readouterr().err
    assert not Path("new").exists()
    for subcommand in ("record", "run"):
        assert status_of([subcommand, "-o", "new", "--repeat", "3", "--", "true"]) == 130
        assert not Path("new").exists()
    Path("new").mkdir()
    assert status_of(["record", "-o", "new", "--repeat", "3", "--", "true"]) == 130
    assert Path("new").exists()


@pytest.mark.parametrize("options", [["-o", "new"], ["-o", "old", "--force"]])
def test_a_recorder_that_is_killed_before_it_recorded(
    options: list[str],
    old: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is in the directory is the older one, if anything is."""
    before = everything(old)
    began = 'mkdir -p "$directory"; cp $MACHINE/metadata "$directory"; touch "$directory/cpu_0"'
    install(f"{began}; kill -KILL $$", tmp_path, monkeypatch)
    assert status_of(["record", *options, "--", "true"]) == 6
    assert "nothing had been recorded yet" in capsys.readouterr().err
    assert everything(old) == before
    assert not Path("new").exists()


def test_a_machine_that_nobody_can_enter(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(tmp_path, monkeypatch, "nas").has("nas", "shut", "")
    before = everything(old)
    assert status_of([*FORCED, "--machine", "server=ssh:nas", "--", "true"]) == 6
    assert everything(old) == before


def test_runs_side_by_side(old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of the new ones takes the place of all the older ones."""
    series = tmp_path / "series"
    again = ["record", "-o", "series", "--force"]
    assert status_of([*again, "--repeat", "3", "--", "true"]) == 0
    before = everything(series)
    install(REFUSED, tmp_path, monkeypatch)
    assert status_of([*again, "--repeat", "2", "--", "true"]) == 6
    assert everything(series) == before
    (series / "notes").touch()
    assert status_of([*again, "--repeat", "2", "--", "true"]) == 2
    assert {*everything(series)} == {*before, "notes"}
    (series / "notes").unlink()
    once = f"test -e {tmp_path}/once && {{ {REFUSED}; }}; touch {tmp_path}/once"
    install(f"{once}; {GOOD}", tmp_path, monkeypatch)
    assert status_of([*again, "--repeat", "2", "--", "true"]) == 6
    assert [path.name for path in series.iterdir()] == ["1"]


def kept(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("command", ["record", "run"])
def test_one_in_the_place_of_a_series(
    command: str, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As --repeat 2 has it; other recordings side by side are no series."""
    one = [command, "-o", "series", "--repeat", "1"]
    series = tmp_path / "series"
    assert status_of(["record", "-o", "series", "--repeat", "3", "--", "true"]) == 0
    before = everything(series)
    assert status_of([*one, "--", "true"]) == 2
    install(REFUSED, tmp_path, monkeypatch)
    assert status_of([*one, "--force", "--", "true"]) == 6
    assert everything(series) == before
    install(GOOD, tmp_path, monkeypatch)
    (series / "3").rename(series / "mine")
    assert status_of([*one, "--force", "--", "true"]) == 2
    assert kept(series) == ["1", "2", "mine"]
    (series / "mine").rename(series / "3")
    assert status_of([*one, "--force", "--", "true"]) == 0
    assert kept(series) == ["local", "recording.json"]
    assert old.exists()


def test_the_new_one_takes_its_place(old: Path) -> None:
    (old / "local" / "cpu_9").touch()
    assert status_of([*FORCED, "--", "true"]) == 0
    assert {path.name for path in old.iterdir()} == {"local", "notes", "recording.json"}
    assert not (old / "local" / "cpu_9").exists()
    assert status_of(["replay", "old"]) == 0


@pytest.mark.parametrize("recorded", [False, True])
def test_who_was_killed_has_left_the_older_one_aside(
    recorded: bool, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back unless something was recorded since."""
    before = everything(old)
    begun = 'cp -r $MACHINE/* "$directory"; tell ready' if recorded else ":"
    install(f"{begun}; kill -KILL $PPID", tmp_path, monkeypatch)
    if not (pid := os.fork()):
        status_of([*FORCED, "--", "true"])
        os._exit(0)
    os.waitpid(pid, 0)
    assert (old / ".older" / "local" / "metadata").exists()
    install(REFUSED, tmp_path, monkeypatch)
    assert status_of([*FORCED, "--", "true"]) == 6
    assert not (old / ".older").exists()
    assert (everything(old) == before) != recorded


def test_what_a_link_leads_to_is_not_taken(old: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (old / ".older").symlink_to(elsewhere)
    before = everything(old)
    assert status_of([*FORCED, "--", "true"]) == 2
    assert everything(old) == before
    assert not list(elsewhere.iterdir())


def test_a_machine_that_was_absent_is_no_obstacle(old: Path) -> None:
    """What came of its trace goes, as the others do."""
    small_recording(old / "nas")
    data = json.loads((old / "recording.json").read_text())
    absent = RecordedMachine("nas", "server", "nas", "not fetched")
    machine = RecordedMachine(**data["machines"][0])
    write_recording_json(old, (machine,), created="", absent=(absent,))
    assert status_of([*FORCED, "--", "true"]) == 0
    assert not (old / "nas").exists()


def test_a_trace_above_it_stays(old: Path, tmp_path: Path) -> None:
    """Whatever a recording.json says, which may be anybody's."""
    inner = small_recording(tmp_path / "trace") / "inner"
    inner.mkdir()
    write_recording_json(inner, (RecordedMachine("a", "host", ".."),), created="")
    before = {*everything(tmp_path / "trace")} - {"inner", "inner/recording.json"}
    assert status_of(["record", "-o", str(inner), "--force", "--", "true"]) == 0
    assert before <= {*everything(tmp_path / "trace")}
