# SPDX-License-Identifier: Apache-2.0
"""A path becomes a recording, or an error that says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iostrata.errors import RecordingError
from iostrata.recording import (
    RecordedMachine,
    open_recording,
    remove_recording,
    write_recording_json,
)
from iostrata.trace.write import TraceBuilder

LOCAL = RecordedMachine("local", "local", "local")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    TraceBuilder().add("syscall", time_ns=5).write(tmp_path / "local")
    write_recording_json(
        tmp_path,
        (LOCAL,),
        created="2026-11-20T12:00:00+00:00",
        command=("true", "a b"),
        exit_status=3,
    )
    return tmp_path


def change(recording: Path, **entries: Any) -> None:
    file = recording / "recording.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


def test_a_recording_is_opened(recording: Path) -> None:
    found = open_recording(recording)
    assert found.machines == (LOCAL,)
    assert found.command == ("true", "a b")
    assert found.exit_status == 3
    assert found.created == "2026-11-20T12:00:00+00:00"
    (trace,) = found.traces()
    assert trace.machine == "local"
    assert trace.event_count == 1


def test_the_file_says_what_the_format_promises(recording: Path) -> None:
    assert json.loads((recording / "recording.json").read_text()) == {
        "format": "iostrata.recording/1",
        "created": "2026-11-20T12:00:00+00:00",
        "command": ["true", "a b"],
        "exit_status": 3,
        "machines": [{"name": "local", "role": "local", "directory": "local"}],
    }


def test_a_machine_alone_is_opened(recording: Path) -> None:
    found = open_recording(recording / "local")
    assert found.command is None
    (trace,) = found.traces()
    assert trace.event_count == 1


def test_additions_of_a_later_version_are_ignored(recording: Path) -> None:
    change(recording, later={"x": 1})
    assert open_recording(recording).machines == (LOCAL,)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ({"format": "iostrata.recording/2"}, "has format 2"),
        ({"format": "iostrata.recording/2", "machines": "other"}, "has format 2"),
        ({"format": "tar/1"}, "of another program"),
        ({"format": 1}, r"broken.*\$.format"),
        ({"machines": [{"name": "local"}]}, r"broken.*\$.machines\[0\]"),
        ({"machines": [{"name": "g", "role": "guest", "directory": "g"}]}, "machine g is missing"),
        ({"machines": [{"name": "g", "role": "guest", "directory": "../.."}]}, "outside"),
        ({"machines": []}, "no machine"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(
    recording: Path, entries: dict[str, Any], why: str
) -> None:
    change(recording, **entries)
    with pytest.raises(RecordingError, match=why) as caught:
        open_recording(recording)
    assert caught.value.hint


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[]", b"null"])
def test_a_broken_file_is_named(recording: Path, text: bytes) -> None:
    (recording / "recording.json").write_bytes(text)
    with pytest.raises(RecordingError, match=r"recording\.json is broken") as caught:
        open_recording(recording)
    assert caught.value.hint


def test_paths_that_are_no_recording(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, why in (
        (tmp_path / "nothing", "does not exist"),
        (file, "is a file"),
        (file / "below", "is a file|is not a directory"),
        (tmp_path, "is no recording"),
        (loop, "cannot be read"),
    ):
        with pytest.raises(RecordingError, match=why) as caught:
            open_recording(path)
        assert caught.value.hint


def test_what_may_not_be_read_is_said(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(RecordingError, match="cannot be read: Permission denied"):
        open_recording(recording)


def test_what_went_wrong_with_a_machine_is_kept(recording: Path) -> None:
    lossy = RecordedMachine("local", "local", "local", "the connection was lost")
    gone = RecordedMachine("nas", "server", "nas", "not fetched")
    write_recording_json(recording, (lossy,), created="", absent=(gone,))
    found = open_recording(recording)
    assert (found.machines, found.absent) == ((lossy,), (gone,))


@pytest.mark.parametrize("directory", ["..", ".", "../precious", "link"])
def test_only_a_recording_is_removed(recording: Path, directory: str) -> None:
    precious = recording / "precious" / "thesis"
    precious.parent.mkdir()
    precious.touch()
    inner = recording / "recording"
    inner.mkdir()
    (inner / "link").symlink_to(precious.parent)
    (inner / "notes").touch()
    write_recording_json(inner, (RecordedMachine("a", "host", directory), LOCAL), created="")
    (inner / "local").mkdir()
    remove_recording(inner)
    assert precious.exists()
    assert {path.name for path in inner.iterdir()} == {"link", "notes"}
