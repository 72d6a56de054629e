# SPDX-License-Identifier: Apache-2.0
"""Recordings made by hand become one, if they are of one run; nothing of theirs is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.cli import status_of
from iostrata.recording import RecordedMachine, open_recording, write_recording_json
from tests.builder import TraceBuilder

SECOND_NS = 1_000_000_000
BOOTED_NS = 1_700_000_000 * SECOND_NS


def record(
    directory: Path,
    host: str,
    *,
    boot: str = "",
    begin_s: int = 100,
    booted_ns: int = BOOTED_NS,
    asleep_ns: int = 0,
) -> str:
    """Ten seconds of a machine; ``begin_s``: by its own CLOCK_MONOTONIC."""
    builder = TraceBuilder(env={"hostname": host, "boot_id": boot or f"boot of {host}"})
    for number, late_ns in ((0, 0), (10, asleep_ns)):
        at_ns = (begin_s + number) * SECOND_NS
        builder.add(
            "clock_sample",
            time_ns=at_ns,
            boottime_ns=at_ns + late_ns,
            realtime_ns=booted_ns + at_ns,
        )
    builder.write(directory / "local")
    exchange = directory / "local" / "facts" / "exchange"
    exchange.parent.mkdir(exist_ok=True)
    exchange.write_text("1\t2\t3\n")
    return str(directory / "local")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_machines_become_one_recording(here: Path) -> None:
    guest, nas = record(here / "a", "vm"), record(here / "b", "nas")
    before = sorted(here.rglob("*"))
    assert status_of(["join", f"guest={guest}", f"nas:server={nas}", "-o", "all"]) == 0
    found = open_recording(here / "all")
    assert [(m.name, m.role) for m in found.machines] == [("guest", "guest"), ("nas", "server")]
    assert [trace.env["hostname"] for trace in found.traces()] == ["vm", "nas"]
    assert [path for path in before if not path.exists()] == []
    # Each was asked for its clock by a coordinator of its own, if at all.
    assert not list((here / "all").rglob("exchange"))


def test_machines_of_one_recording_keep_their_exchange(here: Path) -> None:
    record(here / "a", "vm")
    record(here / "b", "nas")
    assert status_of(["join", "guest=a/local", "server=b/local", "-o", "all"]) == 0
    for name in ("guest", "server"):
        (here / "all" / name / "facts" / "exchange").write_text("1\t2\t3\n")
    assert status_of(["join", "all", "-o", "again"]) == 0
    assert len(list((here / "again").rglob("exchange"))) == 2


def test_more_machines_than_can_be_analysed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(here / "a", "vm")
    machines = [f"g{number}:guest=a/local" for number in range(65)]
    assert status_of(["join", *machines, "-o", "all"]) == 3
    assert "65 machines, more than 64" in capsys.readouterr().err
    assert not (here / "all" / "g0").exists()


@pytest.mark.parametrize(
    ("host", "boot", "name", "status", "story"),
    [
        ("vm", "boot of vm", "host", 3, "guest and host are the same machine, vm"),
        ("vm", "boot of vm", "guest", 3, "are both of guest"),
        ("vm", "another boot", "guest", 3, "guest was rebooted between"),
        ("nas", "", "guest", 3, "two machines are named guest"),
        ("nas", "", "", 2, "holds a recording already"),
        ("nas", "", "x:disk", 2, "there is no role disk"),
    ],
)
def test_what_does_not_belong_together(
    host: str,
    boot: str,
    name: str,
    status: int,
    story: str,
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record(here / "a", "vm")
    record(here / "b", host, boot=boot)
    if not name:
        assert status_of(["join", "guest=a/local", "host=b/local", "-o", "all"]) == 0
        name = "host"
    assert status_of(["join", "guest=a/local", f"{name}=b/local", "-o", "all"]) == status
    captured = capsys.readouterr().err
    assert story in captured
    assert "  try: " in captured


def test_recordings_of_different_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(here / "a", "vm")
    record(here / "b", "nas", begin_s=500, booted_ns=BOOTED_NS - 60 * SECOND_NS)
    arguments = ["join", "guest=a/local", "server=b/local", "-o", "all"]
    assert status_of(arguments) == 3
    assert "guest and server were not recorded at the same time" in capsys.readouterr().err
    assert status_of([*arguments, "--unsynchronised"]) == 0


def test_uptime_is_no_time(here: Path) -> None:
    """Machines that were booted at different times were recorded at the same one."""
    record(here / "a", "vm")
    record(here / "b", "nas", begin_s=5_000, booted_ns=BOOTED_NS - 4_905 * SECOND_NS)
    assert status_of(["join", "guest=a/local", "server=b/local", "-o", "all"]) == 0


def test_a_suspended_machine_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(here / "a", "vm", asleep_ns=3 * SECOND_NS)
    record(here / "b", "nas")
    assert status_of(["join", "guest=a/local", "server=b/local", "-o", "all"]) == 0
    assert "warning: guest was suspended for 3.00 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "story"),
    [
        (["a/local"], 2, "nothing to join it with"),
        (["a/local", "b/local"], 2, "what part do a/local and b/local have"),
        (["guest=a/local", "server=none"], 3, "none does not exist"),
        (["guest=a/local", "none"], 3, "none does not exist"),
        (["guest=a/local", "=b/local"], 2, "is no machine"),
    ],
)
def test_bad_arguments(
    arguments: list[str],
    status: int,
    story: str,
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record(here / "a", "vm")
    record(here / "b", "nas")
    assert status_of(["join", *arguments, "-o", "all"]) == status
    assert story in capsys.readouterr().err
    assert not (here / "all").exists()


def test_what_cannot_be_copied_leaves_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record(here / "a", "vm")
    record(here / "b", "nas")

    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr("iostrata.recording.joined._link", full)
    monkeypatch.setattr("iostrata.cli._discard_stdout", lambda: None)
    assert status_of(["join", "guest=a/local", "server=b/local", "-o", "all"]) == 1
    assert "all/guest/metadata: No space left on device" in capsys.readouterr().err
    assert not list((here / "all").iterdir())


@pytest.mark.parametrize("name", ["../precious", "{here}/precious", "../new", "a/b", ""])
def test_a_recordings_own_names_lead_nowhere(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever wrote it may have named a machine like a directory of ours."""
    (here / "precious").mkdir()
    (here / "precious" / "file").write_text("mine")
    named = (RecordedMachine(name.format(here=here), "guest", "local"),)
    record(here / "evil", "vm")
    write_recording_json(here / "evil", named, created="")
    record(here / "b", "nas")
    assert status_of(["join", "evil", "server=b/local", "-o", "all"]) == 3
    assert "a machine cannot be named" in capsys.readouterr().err
    assert (here / "precious" / "file").read_text() == "mine"
    assert sorted(path.name for path in here.iterdir()) == ["b", "evil", "precious"]


def test_only_what_a_recorder_writes_is_joined(here: Path) -> None:
    record(here / "a", "vm")
    record(here / "b", "nas")
    (here / "secret").write_text("mine")
    (here / "a" / "local" / "cpu_7").symlink_to(here / "secret")
    (here / "a" / "local" / "unit.conf").write_text("foreign")
    assert status_of(["join", "guest=a/local", "server=b/local", "-o", "all"]) == 0
    assert not {"cpu_7", "unit.conf"} & {path.name for path in (here / "all/guest").iterdir()}
