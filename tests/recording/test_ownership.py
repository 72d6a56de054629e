# SPDX-License-Identifier: Apache-2.0
"""Who owns what root recorded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iostrata.cli import status_of
from iostrata.errors import UsageError
from iostrata.recording import check_own, give
from tests.cli.recordings import small_recording
from tests.recording.test_joined import record

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
SUDO = {"SUDO_UID": "1234", "SUDO_GID": "1235"}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    (tmp_path / "recording" / "local" / "facts").mkdir(parents=True)
    (tmp_path / "recording" / "local" / "facts" / "cpus").touch()
    (tmp_path / "recording" / "recording.json").touch()
    return tmp_path / "recording"


@pytest.fixture
def sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in SUDO.items():
        monkeypatch.setenv(name, number)


def owners(path: Path) -> set[tuple[int, int]]:
    return {(each.lstat().st_uid, each.lstat().st_gid) for each in (path, *path.rglob("*"))}


def test_all_is_the_users_who_asked_for_it(recording: Path) -> None:
    give(recording, SUDO)
    assert owners(recording) == {(1234, 1235)}
    assert owners(recording.parent) > {(0, 0)}


def test_what_may_be_anothers_stays(recording: Path) -> None:
    secret = recording.parent / "secret"
    secret.touch()
    (recording / "local" / "link").symlink_to(secret)
    (recording / "local" / "other-name").hardlink_to(secret)
    (recording / "foreign").touch()
    os.chown(recording / "foreign", 7, 7)
    give(recording, SUDO)
    assert secret.stat().st_uid == 0
    assert (recording / "foreign").stat().st_uid == 7
    assert (recording / "recording.json").stat().st_uid == 1234


@pytest.mark.parametrize(
    "environment",
    [{}, {"SUDO_UID": "1234"}, SUDO | {"SUDO_GID": "-1"}, SUDO | {"SUDO_UID": "9" * 20}],
)
def test_without_sudo_it_is_roots(recording: Path, environment: dict[str, str]) -> None:
    give(recording, environment)
    assert owners(recording) == {(0, 0)}


def test_what_was_redacted_is_the_users(tmp_path: Path, sudo: None) -> None:
    small_recording(tmp_path / "recording" / "local")
    source = str(tmp_path / "recording" / "local")
    assert status_of(["export", source, "--redact", str(tmp_path / "shown")]) == 0
    assert owners(tmp_path / "shown") == {(1234, 1235)}
    assert owners(tmp_path / "recording") == {(0, 0)}


@pytest.mark.parametrize("whose", [0, 1234])
def test_what_was_joined_is_the_users(tmp_path: Path, sudo: None, whose: int) -> None:
    """The parts stay whose they are, so that they are copied where they are another's."""
    parts = [record(tmp_path / "a", "vm"), record(tmp_path / "b", "nas")]
    names = [path for part in parts for path in (Path(part), *Path(part).rglob("*"))]
    for path in names:
        os.chown(path, whose, whose)
    assert status_of(["join", *map("m{0[0]}:host={0[1]}".format, enumerate(parts)), "-o",
                      str(tmp_path / "all")]) == 0  # fmt: skip
    assert {user for user, _ in owners(tmp_path / "all")} == {1234}
    assert {path.stat().st_uid for path in names} == {whose}


@pytest.mark.parametrize(
    ("owner", "mode", "why"),
    [
        (1234, 0o700, ""),
        (0, 0o755, ""),
        (0, 0o775, ""),
        (1236, 0o700, "belongs to another user"),
        (0, 0o777, "is open to all users"),
        (1234, 0o1777, "is open to all users"),
    ],
)
def test_where_others_may_put_links_nothing_is_written(
    tmp_path: Path, owner: int, mode: int, why: str
) -> None:
    """Of what there is: what is not there yet is made by who records."""
    directory = tmp_path / "there"
    check_own(directory, SUDO)
    directory.mkdir()
    os.chown(directory, owner, 0)
    directory.chmod(mode)
    if why:
        with pytest.raises(UsageError, match=why):
            check_own(directory, SUDO)
    else:
        check_own(directory, SUDO)


def test_another_users_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    check_own(tmp_path / "link", SUDO)
    os.chown(tmp_path / "link", 1236, 1236, follow_symlinks=False)
    with pytest.raises(UsageError, match="belongs to another user"):
        check_own(tmp_path / "link", SUDO)


def test_a_recording_is_not_made_in_anothers_directory(tmp_path: Path) -> None:
    """None of it: what is there is as it was."""
    directory = tmp_path / "there"
    directory.mkdir()
    os.chown(directory, 65534, 65534)
    status = status_of(["record", "-o", str(directory), "--", "true"])
    assert status == 2
    assert list(directory.iterdir()) == []
