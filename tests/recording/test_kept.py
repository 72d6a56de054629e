# SPDX-License-Identifier: Apache-2.0
"""Facts that are not what was recorded are told of, whatever was made of the recording since."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from iostrata.cli import status_of
from iostrata.errors import STATUS_LOSSES
from iostrata.recording import RecordedMachine, facts_in, open_recording, write_recording_json
from tests.builder import TraceBuilder
from tests.recording.test_redact import DISK
from tests.synthetic import O_DSYNC, Request, World, Writer
from tests.test_recorded import RECORDINGS

LOCAL = RecordedMachine("local", "local", "local")
BLOCK = "facts/block"


def recorded_as(metadata: Path) -> str:
    return f"{metadata.parts[-3]}, {metadata.parts[-2]}"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    world, path = World(), tmp_path / "recording"
    world.builder.block(DISK, "sda").mount(DISK, "/", "ext4")
    writer = Writer(world, 101, DISK, 1_000_000)
    writer.enter()
    writer.data(Request(scheduler=None))
    writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
    world.builder.write(path / "local")
    told = replace(LOCAL, facts=facts_in(path / "local"))
    write_recording_json(path, (told,), created="2026-11-20T12:00:00+00:00")
    return path


def damage(path: Path) -> list[str]:
    return [line for trace in open_recording(path).traces() for line in trace.damage]


def emptied(file: Path) -> str:
    size = file.stat().st_size
    file.write_bytes(b"")
    return f"0 of its {size} bytes are there"


def cut(file: Path) -> str:
    data = file.read_bytes()
    file.write_bytes(data[: data.index(b"\n") + 1])
    return f"{data.index(bytes([10])) + 1} of its {len(data)} bytes are there"


def changed(file: Path) -> str:
    file.write_bytes(file.read_bytes().replace(b"sda", b"sdb"))
    return "it is not what was recorded"


def removed(file: Path) -> str:
    file.unlink()
    return "it is missing, or cannot be read"


@pytest.mark.parametrize("harm", [emptied, cut, changed, removed])
def test_a_fact_that_was_harmed_is_told_of(
    recording: Path, harm: Callable[[Path], str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["replay", str(recording)]) == 0
    capfd.readouterr()
    wrong = f"{BLOCK}: {harm(recording / 'local' / BLOCK)}"
    assert damage(recording) == [wrong]
    assert status_of(["replay", str(recording)]) == STATUS_LOSSES
    assert wrong in " ".join(capfd.readouterr().out.split())


@pytest.mark.parametrize("harm", [None, cut, removed])
def test_what_is_made_of_it_tells_the_same(
    recording: Path, tmp_path: Path, harm: Callable[[Path], str] | None
) -> None:
    other = tmp_path / "other"
    TraceBuilder(env={"hostname": "nas", "boot_id": "nas"}).add("syscall", time_ns=5).write(other)
    expected = [BLOCK] if harm else []
    if harm:
        harm(recording / "local" / BLOCK)
    made = [tmp_path / name for name in ("redacted", "joined")]
    assert status_of(["export", "--redact", str(made[0]), str(recording)]) in (0, STATUS_LOSSES)
    join = ["join", f"guest={recording}", f"nas:server={other}", "-o", str(made[1])]
    assert status_of([*join, "--unsynchronised"]) == 0
    for path in made:
        assert [line.partition(":")[0] for line in damage(path)] == expected
        assert open_recording(path).machines[0].facts


@pytest.mark.parametrize("name", ["block", "mountinfo"])
@pytest.mark.parametrize("source", sorted(RECORDINGS.glob("*/*/metadata")), ids=recorded_as)
def test_what_every_recorder_writes_is_missed_where_nothing_told_of_it(
    source: Path, name: str, tmp_path: Path
) -> None:
    """Of any version."""
    copy = tmp_path / "machine"
    shutil.copytree(source.parent, copy)
    assert damage(copy) == []
    (copy / "facts" / name).unlink()
    assert damage(copy) == [f"facts/{name}: it is missing, or cannot be read"]
    (copy / "facts" / name).touch()
    assert damage(copy) == [f"facts/{name}: it is empty"]


def test_what_another_tool_recorded_has_what_it_has(recording: Path) -> None:
    """As what is made up here."""
    local = recording / "local"
    shutil.rmtree(local / "facts")
    write_recording_json(recording, (LOCAL,), created="2026-11-20T12:00:00+00:00")
    assert damage(recording) == damage(local) == []


@pytest.mark.parametrize("relative", [False, True])
def test_a_machine_s_directory_is_held_against_the_recording_around_it(
    recording: Path, monkeypatch: pytest.MonkeyPatch, *, relative: bool
) -> None:
    local = recording / "local"
    given = Path() if relative else local
    monkeypatch.chdir(local)
    assert damage(given) == []
    wrong = [f"{BLOCK}: {changed(local / BLOCK)}"]
    assert damage(given) == wrong
    (recording / "recording.json").write_text("{")
    assert damage(given) == []


def test_events_that_nobody_knows_are_counted(
    recording: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By another version's metadata, or changed ones: older recordings have no checksum of them."""
    file = recording / "local" / "metadata"
    text, seal, _ = file.read_bytes().partition(b"\n/* crc32 ")
    assert seal
    file.write_bytes(text.replace(b"block_rq_issue", b"blosk_rq_issue"))
    assert status_of(["replay", str(recording)]) == 0
    found = " ".join(capfd.readouterr().out.split())
    assert "not seen blosk_rq_issue: this version knows nothing of their events (1)" in found


def test_what_nobody_told_of_is_taken_as_it_is(recording: Path) -> None:
    """An older recording's, or those of one that was interrupted; and what came later."""
    (recording / "local" / "facts" / "echoes").write_text("address\tsent_ns\tround_trip_ns\n")
    assert damage(recording) == []
    write_recording_json(recording, (LOCAL,), created="2026-11-20T12:00:00+00:00")
    emptied(recording / "local" / BLOCK)
    assert damage(recording) == []
