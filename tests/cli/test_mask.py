# SPDX-License-Identifier: Apache-2.0
"""Whatever umask it is started with: its owner can read what it writes, and of a recording nobody
else. The recorded command has that very one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from iostrata.cli import status_of
from iostrata.mask import MASK
from tests.cli.recordings import small_recording
from tests.record.recorders import install
from tests.script.printed import printed
from tests.script.test_truth import writes

GOOD = (
    'umask 077; cp -r $MACHINE/* "$directory"; tell ready; umask $given; "$@"; tell exit 0; exit 0'
)


@pytest.fixture(params=[0o777, 0o277, 0o022, 0])
def umask(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    monkeypatch.setenv("MACHINE", str(small_recording(tmp_path / "machine")))
    monkeypatch.chdir(tmp_path)
    install(f"given=$(umask); {GOOD}", tmp_path, monkeypatch)
    (tmp_path / "out.txt").write_text(printed(writes()[0]))
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(*paths: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in paths}


def test_a_recording_is_its_owners_alone(umask: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of(["record", "-o", "new", "--", "sh", "-c", "umask"]) == 0
    assert int(capfd.readouterr().out, 8) == umask
    assert status_of(["import", "out.txt", "-o", "brought"]) == 0
    # The recorder here makes its own directory as it likes.
    every = [Path("new"), Path("new/recording.json"), Path("brought"), *Path("brought").rglob("*")]
    assert modes(*(path for path in every if path.is_dir())) == {0o700}
    assert modes(*(path for path in every if path.is_file())) == {0o600}
    assert os.umask(umask) == umask
    assert MASK.given == -1


def test_what_is_made_of_it_is_as_anything_else_and_its_owners(umask: int) -> None:
    place = str(small_recording(Path("old")))
    assert status_of(["html", place, "-o", "page.html"]) == 0
    assert status_of(["export", place, "--csv", "rows.csv", "--redact", "shown"]) == 0
    assert status_of(["replay", place, "--json", "table.json"]) == 0
    others = ~umask & 0o077
    files = [Path(name) for name in ("page.html", "rows.csv", "table.json")]
    assert modes(*files) == {0o600 | (0o666 & others)}
    assert modes(Path("shown")) == {0o700 | (0o777 & others)}
    assert {mode & 0o700 for mode in modes(*Path("shown").rglob("*"))} <= {0o600, 0o700}
