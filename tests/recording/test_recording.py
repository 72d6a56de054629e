# SPDX-License-Identifier: Apache-2.0
"""A path becomes a recording, or an error that says what to do."""

from __future__ import annotations

import json
import os
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest

from iostrata.errors import RecordingError
from iostrata.record.exchange import Probe, write_exchange
from iostrata.recording import (
    RecordedMachine,
    open_recording,
    remove_recording,
    write_recording_json,
)
from tests.builder import TraceBuilder

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
        ({"machines": [{"name": "g", "role": "guest", "directory": "g\0"}]}, "outside"),
        ({"machines": []}, "no machine"),
        (
            {"machines": [{"name": f"g{n}", "role": "guest", "directory": "g"} for n in range(65)]},
            "65 machines, more than 64",
        ),
        (
            {"machines": [{"name": "g", "role": "guest", "directory": d} for d in ("local", ".")]},
            "2 machines have one name, g",
        ),
        (
            {"machines": [{"name": n, "role": "guest", "directory": "local"} for n in "ab"]},
            "2 machines have one directory, .*local",
        ),
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
    def refuse(path: Path, *_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(RecordingError, match="cannot be read: Permission denied"):
        open_recording(recording)


def test_what_is_no_file_is_not_waited_for(recording: Path) -> None:
    (recording / "recording.json").unlink()
    os.mkfifo(recording / "recording.json")
    with pytest.raises(RecordingError, match="not a regular file"):
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


def test_a_trace_is_removed_and_what_was_put_beside_it_stays(recording: Path) -> None:
    trace = recording / "local"
    (trace / "facts").mkdir(exist_ok=True)
    (trace / "facts" / "block").touch()
    (trace / "facts" / "Thesis").touch()
    (trace / "thesis").touch()
    remove_recording(recording)
    left = {str(path.relative_to(recording)) for path in recording.rglob("*") if path.is_file()}
    assert left == {"local/facts/Thesis", "local/thesis"}


@pytest.mark.parametrize("text", [b"", b"{}", b'{"format": "other/1"}', b"not JSON at all"])
def test_a_foreign_file_of_that_name_costs_nothing(recording: Path, text: bytes) -> None:
    """``local`` beside it is another program's."""
    (recording / "recording.json").write_bytes(text)
    before = sorted(recording.rglob("*"))
    with pytest.raises(RecordingError):
        remove_recording(recording)
    assert sorted(recording.rglob("*")) == before


@pytest.mark.parametrize("metadata", ["/* CTF 1.8 */ of LTTng", None])
def test_a_foreign_trace_stays(recording: Path, metadata: str | None) -> None:
    """recording.json may name any directory beside it."""
    trace = recording / "local"
    (trace / "metadata").unlink()
    if metadata:
        (trace / "metadata").write_text(metadata)
    before = sorted(trace.rglob("*"))
    remove_recording(recording)
    assert sorted(trace.rglob("*")) == before


def test_no_link_is_followed_when_it_is_removed(recording: Path, tmp_path: Path) -> None:
    """A link for the trace, for its facts, for its metadata."""
    trace, precious = recording / "local", tmp_path / "precious"
    shutil.copytree(trace, precious)
    before = sorted(precious.rglob("*"))
    shutil.rmtree(trace / "facts", ignore_errors=True)
    (trace / "facts").symlink_to(precious)
    remove_recording(recording)
    assert sorted(precious.rglob("*")) == before
    assert sorted(path.name for path in trace.iterdir()) == ["facts"]
    shutil.rmtree(trace)
    trace.symlink_to(precious)
    write_recording_json(recording, (LOCAL,), created="")
    remove_recording(recording)
    assert sorted(precious.rglob("*")) == before


def test_a_full_disk_is_named_and_what_was_there_stays(recording: Path) -> None:
    before = (recording / "recording.json").read_text()
    names = sorted(recording.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write_recording_json(recording, (LOCAL,), created="")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(recording / "recording.json")
    assert (recording / "recording.json").read_text() == before
    assert sorted(recording.iterdir()) == names


def test_what_a_link_leads_to_is_not_written(recording: Path) -> None:
    """Where root records, somebody else may have made the directory."""
    precious = recording / "precious"
    precious.write_text("mine")
    precious.chmod(0o644)
    (recording / "local" / "facts").mkdir(exist_ok=True)
    links = (recording / "recording.json", recording / "local" / "facts" / "exchange")
    for link in links:
        link.unlink(missing_ok=True)
        link.symlink_to(precious)
    write_recording_json(recording, (LOCAL,), created="")
    write_exchange(recording / "local", [Probe(1, 2, 3)])
    assert precious.read_text() == "mine"
    assert precious.stat().st_mode & 0o777 == 0o644
    assert all(link.is_file() and not link.is_symlink() for link in links)
    assert all(link.stat().st_mode & 0o777 == 0o600 for link in links)
    assert open_recording(recording).machines == (LOCAL,)


def test_a_machine_that_is_a_link_to_itself_is_refused(recording: Path) -> None:
    shutil.rmtree(recording / "local")
    (recording / "local").symlink_to("local")
    with pytest.raises(RecordingError, match="local") as caught:
        open_recording(recording)
    assert caught.value.hint
