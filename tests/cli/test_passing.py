# SPDX-License-Identifier: Apache-2.0
"""Temporary directories of who was killed go when another is made, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iostrata.cli.passing import passing

PREFIX = "iostrata-try-"
OWNER = f"""
import sys
from iostrata.cli.passing import passing
with passing({PREFIX!r}) as directory:
    (directory / "local").mkdir()
    (directory / "local" / "cpu_0").write_bytes(b"events")
    print(directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@contextmanager
def owner() -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """Another process, and its directory."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        yield Path(process.stdout.readline().strip()), process


def left() -> Path:
    """Of a process that was killed."""
    with owner() as (directory, process):
        process.kill()
    return directory


def test_nothing_is_left(place: Path) -> None:
    with passing(PREFIX) as directory:
        assert directory.parent == place
        assert directory.stat().st_mode & 0o777 == 0o700
        (directory / "file").touch()
    assert not list(place.iterdir())


def test_what_the_killed_left_goes_and_what_the_living_have_stays(place: Path) -> None:
    dead = left()
    assert (dead / "local" / "cpu_0").exists()
    with owner() as (alive, process):
        assert not dead.exists()
        with passing(PREFIX) as mine:
            assert set(place.iterdir()) == {alive, mine}
        assert (alive / "local" / "cpu_0").exists()
        process.communicate()
    assert process.returncode == 0
    assert not list(place.iterdir())


def test_what_is_not_ours_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's, what a link leads to, what bears no mark, and what has another name."""
    (place / "kept").mkdir()
    theirs, linked = left(), left().rename(place / "kept" / "directory")
    (place / f"{PREFIX}link").symlink_to(linked)
    (place / f"{PREFIX}file").touch()
    (place / f"{PREFIX}unmarked").mkdir()
    (place / "iostrata-kept").mkdir()
    before = set(place.rglob("*"))
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with passing(PREFIX):
        pass
    assert set(place.rglob("*")) == before
    monkeypatch.undo()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with passing(PREFIX):
        pass
    assert set(place.rglob("*")) == {one for one in before if theirs not in (one, *one.parents)}


def test_where_nothing_can_be_locked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError

    monkeypatch.setattr("iostrata.cli.passing.flock", refuse)
    with passing(PREFIX), passing(PREFIX):
        assert len(list(place.iterdir())) == 2
    assert not list(place.iterdir())
