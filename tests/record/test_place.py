# SPDX-License-Identifier: Apache-2.0
"""What was made on another machine, and its keeper there: who removes what, and what stays."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iostrata.record.place import KEEPER, TIDY, directory_of

DAY_S = 86_400
PATIENCE_S = 60


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A directory with a recorder and its trace."""
    directory = tmp_path / "iostrata-x7Yz01"
    (directory / "trace" / "facts").mkdir(parents=True)
    for name in ("iostrata-record", "trace/metadata", "trace/cpu_0", "trace/facts/block"):
        (directory / name).touch()
    return directory


def aged(directory: Path, days: float) -> None:
    """Nothing in it was written since."""
    then = time.time() - days * DAY_S
    for path in (*directory.rglob("*"), directory):
        os.utime(path, (then, then), follow_symlinks=False)


class Keeper:
    """The process, and how often it has looked."""

    def __init__(self, made: Path) -> None:
        self.looks = made.parent / "looks"
        self.looks.touch()
        programs = made.parent / "programs"
        programs.mkdir()
        find = programs / "find"
        find.write_text(f'#!/bin/sh\necho >>{self.looks}\nexec /usr/bin/find "$@"\n')
        find.chmod(0o755)
        path = f"{programs}:{os.environ['PATH']}"
        words = ["setsid", "sh", "-c", KEEPER, "sh", str(made), "0.05"]
        self.process = subprocess.Popen(words, cwd="/", env={"PATH": path})

    def has_looked(self) -> None:
        """Some times since, and goes on."""
        wanted = self.looks.stat().st_size + 4
        end = time.monotonic() + PATIENCE_S
        while self.looks.stat().st_size < wanted:
            assert self.process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.fixture
def keeper(made: Path) -> Iterator[Keeper]:
    keeper = Keeper(made)
    yield keeper
    keeper.process.kill()
    keeper.process.wait()


def test_what_nobody_wrote_to_for_a_week_goes(made: Path, keeper: Keeper) -> None:
    keeper.has_looked()
    aged(made, 7.1)
    assert keeper.process.wait(PATIENCE_S) == 0
    assert not made.exists()


def test_what_is_written_to_stays(made: Path, keeper: Keeper) -> None:
    """One file is enough: a recorder that has little to record writes that."""
    aged(made, 30)
    (made / "trace" / "cpu_0").touch()
    keeper.has_looked()
    assert (made / "trace" / "metadata").exists()


def test_a_week_is_not_over_before_its_end(made: Path, keeper: Keeper) -> None:
    aged(made, 6.9)
    keeper.has_looked()
    assert (made / "trace" / "metadata").exists()


def test_another_directory_of_that_name_stays(made: Path, keeper: Keeper) -> None:
    keeper.has_looked()
    made.rename(made.parent / "elsewhere")
    thesis = made / "trace" / "thesis"
    thesis.parent.mkdir(parents=True)
    thesis.touch()
    aged(made, 30)
    keeper.process.wait(PATIENCE_S)
    assert thesis.exists()
    assert (made.parent / "elsewhere" / "trace" / "cpu_0").exists()


def test_what_somebody_put_beside_it_stays(made: Path, keeper: Keeper) -> None:
    (made / "thesis").touch()
    (made / "trace" / "link").symlink_to(made.parent)
    keeper.has_looked()
    aged(made, 30)
    keeper.process.wait(PATIENCE_S)
    assert [path.name for path in made.iterdir()] == ["thesis"]
    assert keeper.looks.exists()


def test_tidied_is_tidied(made: Path, keeper: Keeper) -> None:
    """And another process that has the keeper's number now goes on."""
    keeper.has_looked()
    tidy = ["sh", "-c", TIDY, "sh", str(made)]
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        # The keeper's first: it ends by itself where it finds the directory gone.
        for process in (keeper.process, other):
            made.mkdir(exist_ok=True)
            subprocess.run([*tidy, str(process.pid)], check=True)
            assert not made.exists()
        assert keeper.process.wait(PATIENCE_S) == -signal.SIGTERM
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ("/var/tmp/iostrata-x7Yz01", True),
        ("/etc", False),
        ("/home/iostrata-x7Yz01", False),
        ("/var/tmp/iostrata-x7Yz01/..", False),
        ("/var/tmp/iostrata-backups", False),
        ("services are down", False),
        ("", False),
    ],
)
def test_only_what_can_be_a_temporary_directory_is_one(said: str, taken: bool) -> None:
    assert directory_of({"directory": said}, ("/var/tmp", "/tmp")) == (said if taken else "")
