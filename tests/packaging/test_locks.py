# SPDX-License-Identifier: Apache-2.0
"""The locks: what was tested is what is installed, from whatever index."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]
LOCKS: Final = {
    "": "requirements.txt", "dev": "requirements-dev.txt", "dist": "requirements-dist.txt"
}  # fmt: skip
PIN: Final = re.compile(r"^(\S+==[^\\\n]+?) *\\?\n((?:    --hash=sha256:[0-9a-f]{64}.*\n)*)", re.M)


def pins(group: str) -> list[tuple[Requirement, int]]:
    """Each pin with the number of files that may be it, of those that this Python needs."""
    text = (ROOT / "packaging" / LOCKS[group]).read_text()
    found = [(Requirement(pin), hashes.count("sha256")) for pin, hashes in PIN.findall(text)]
    assert len(found) == len(re.findall(r"^[^\s#]", text, re.MULTILINE))
    return [one for one in found if one[0].marker is None or one[0].marker.evaluate()]


def version(pin: Requirement) -> str:
    return str(pin.specifier).removeprefix("==")


@pytest.mark.parametrize("group", LOCKS)
def test_every_requirement_has_its_pin(group: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["dependency-groups"][group] if group else project["project"]["dependencies"]
    locked = {canonicalize_name(pin.name): pin for pin, _ in pins(group)}
    for one in map(Requirement, wanted):
        assert version(locked[canonicalize_name(one.name)]) in one.specifier, "run `make lock`"


@pytest.mark.parametrize("group", LOCKS)
def test_every_pin_is_of_known_bytes_from_anywhere(group: str) -> None:
    assert "://" not in (ROOT / "packaging" / LOCKS[group]).read_text()
    assert pins(group)
    assert all(files for _, files in pins(group))


def test_what_runs_here_is_what_is_locked() -> None:
    locked = {pin.name: version(pin) for group in ("", "dev") for pin, _ in pins(group)}
    found = {name: metadata.version(name) for name in locked}
    assert found == locked, "run `make .stamps/python-dev`"
