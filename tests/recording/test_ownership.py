# SPDX-License-Identifier: Apache-2.0
"""Who owns what root recorded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iostrata.recording import give

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
SUDO = {"SUDO_UID": "1234", "SUDO_GID": "1235"}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    (tmp_path / "recording" / "local" / "facts").mkdir(parents=True)
    (tmp_path / "recording" / "local" / "facts" / "cpus").touch()
    (tmp_path / "recording" / "recording.json").touch()
    return tmp_path / "recording"


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
