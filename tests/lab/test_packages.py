# SPDX-License-Identifier: Apache-2.0
"""Packages that a machine of the lab must have and this one lacks: fetched once, into the cache."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from iostrata.lab import packages
from iostrata.lab.packages import BASE, fetched, fetched_root, installed
from tests.lab.test_parts import Heard

STATUS = """Package: fio
Status: install ok installed
Version: 3

Package: gone
Status: deinstall ok config-files
"""


def test_what_dpkg_says_is_installed() -> None:
    assert [*installed(STATUS)] == ["fio"]


def package(place: Path, name: str, *files: str) -> Path:
    root = place / f"{name}.root"
    (root / "DEBIAN").mkdir(parents=True)
    control = (
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@y>\nDescription: x\n"
    )
    (root / "DEBIAN" / "control").write_text(control)
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(name)
    made = place / f"{name}.deb"
    subprocess.run(["dpkg-deb", "--build", root, made], check=True, capture_output=True)
    return made


class Archive:
    """Of packages made here; ``asked``: for which, ``architectures``: of which."""

    asked: ClassVar[list[Sequence[str]]] = []
    architectures: ClassVar[list[str]] = []

    def __init__(self, place: Path, what: str, suite: str = "", architecture: str = "") -> None:
        self._place = place
        self.architectures.append(architecture)
        place.mkdir()

    def download_with_needs(self, names: Sequence[str]) -> list[Path]:
        self.asked.append(names)
        return [
            package(self._place, "daemon", "sbin/daemon", "lib/x/needed.so"),
            package(self._place, "library", "usr/lib/x/library.so"),
        ]


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of Debian's; a cache of one's own."""
    if not Path("/usr/bin/dpkg-deb").exists():
        pytest.skip("dpkg-deb is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "Archive", Archive)
    monkeypatch.setattr(Archive, "asked", [])
    monkeypatch.setattr(Archive, "architectures", [])


@pytest.mark.usefixtures("archive")
def test_what_is_lacking_is_fetched_once_and_put_where_root_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "DPKG", tmp_path)
    (tmp_path / "status").write_text(STATUS)
    assert fetched(["fio"], Heard()) is None
    first = fetched(["fio", "daemon"], told := Heard())
    assert first
    assert Archive.asked == [["daemon"]]
    assert "daemon" in told.lines[0]
    # A root whose /sbin and /lib are links must still have them above it.
    assert (first / "sbin").is_symlink()
    assert (first / "usr" / "sbin" / "daemon").read_text() == "daemon"
    assert (first / "lib" / "x" / "needed.so").exists()
    assert (first / "usr" / "lib" / "x" / "library.so").exists()
    assert fetched(["daemon"], Heard()) == first
    assert len(Archive.asked) == 1
    (tmp_path / "status").write_text(STATUS.replace("3", "4"))
    assert fetched(["daemon"], Heard()) != first


@pytest.mark.usefixtures("archive")
def test_a_root_of_another_architecture_has_all_that_the_lab_runs() -> None:
    """Whatever is installed here, which is not for it."""
    first = fetched_root("arm64", ["fio"], told := Heard())
    assert Archive.asked == [sorted(["fio", *BASE])]
    assert Archive.architectures == ["arm64"]
    assert "arm64" in told.lines[0]
    assert (first / "usr" / "sbin" / "daemon").read_text() == "daemon"
    assert fetched_root("arm64", ["fio"], Heard()) == first
    assert fetched_root("arm64", ["fio", "strace"], Heard()) != first
    assert len(Archive.asked) == 2
