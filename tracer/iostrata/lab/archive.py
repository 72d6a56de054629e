# SPDX-License-Identifier: Apache-2.0
"""Lab stage: names of Debian's packages in, their files out.

The archive is the one that this machine's apt uses; its own configuration and lists are not
touched, nothing is installed. Packages of another architecture are found as on a machine of it on
which nothing is installed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from iostrata.errors import LabError
from iostrata.lab.tools import run_tool

KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Archive:
    """apt with its lists in ``place``. ``suite``: of Debian; else the sources of this machine.

    ``architecture``: another one than this machine's, as Debian calls it. Errors: LabError, named
    by ``what`` is being fetched.
    """

    def __init__(self, place: Path, what: str, suite: str = "", architecture: str = "") -> None:
        self.suite = suite
        self._place = place
        self._what = what
        (place / "lists" / "partial").mkdir(parents=True)
        (place / "cache" / "archives" / "partial").mkdir(parents=True)
        self._options = [
            f"-oDir::State::lists={place / 'lists'}",
            f"-oDir::Cache={place / 'cache'}",
            "-oAcquire::Languages=none",
            "-oAPT::Sandbox::User=root",
            "-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        ]
        if architecture:
            (place / "status").touch()
            self._options += [
                f"-oAPT::Architecture={architecture}",
                f"-oAPT::Architectures={architecture}",
                f"-oDir::State::status={place / 'status'}",
            ]
        if suite:
            sources = place / "sources.list"
            sources.write_text(f"deb [signed-by={KEYRING}] {_mirror()} {suite} main\n")
            self._options += [f"-oDir::Etc::sourcelist={sources}", "-oDir::Etc::sourceparts=-"]
        self._run("apt-get", "update", "-qq")

    def search(self, pattern: str) -> list[str]:
        found = self._run("apt-cache", "search", "--names-only", pattern)
        return [line.split()[0] for line in found.splitlines()]

    def download(self, packages: Sequence[str]) -> list[Path]:
        """These packages only."""
        here = Path.cwd()
        os.chdir(self._place)  # where apt-get downloads to
        try:
            self._run("apt-get", "download", "-qq", *packages)
        finally:
            os.chdir(here)
        return sorted(self._place.glob("*.deb"))

    def download_with_needs(self, packages: Sequence[str]) -> list[Path]:
        """These packages and what they need, without those that are installed on this machine."""
        words = ("--download-only", "--no-install-recommends", "-qq", "-oDebug::NoLocking=1")
        self._run("apt-get", "install", *words, *packages)
        return sorted((self._place / "cache" / "archives").glob("*.deb"))

    def _run(self, program: str, *words: str) -> str:
        return run_tool(program, *self._options, *words, what=self._what)


def _mirror() -> str:
    """The Debian archive that this machine's apt uses."""
    targets = run_tool(
        "apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages",
        what="apt's sources",
    )  # fmt: skip
    for line in targets.splitlines():
        label, _, uri = line.partition(" ")
        if label == "Debian":
            return uri
    raise LabError(
        "apt has no source of Debian's archive, where the lab's kernels are",
        "run the lab on Debian, with its archive in apt's sources, after apt-get update",
    )
