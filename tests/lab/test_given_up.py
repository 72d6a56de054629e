# SPDX-License-Identifier: Apache-2.0
"""A guest that KVM gives up is booted again, and any other that does not come up is not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from iostrata.errors import LabError
from iostrata.lab.boot import BOOTS, wait_for_nested
from iostrata.lab.machine import QEMU_LOG, RunningMachine
from iostrata.lab.process import process

# As QEMU 7.2 says it, of a host with Linux 7.2 that is itself emulated.
GIVEN_UP: Final = """\
KVM internal error. Suberror: 3
extra data[0]: 0x0000000100203000
extra data[1]: 0x0000000000000400
"""


class Guest:
    """Of whose boots so many fail; ``said``: by its QEMU then."""

    def __init__(self, place: Path, fail: int, said: str) -> None:
        self.fail, self.said, self.boots = fail, said, 0
        self.told: list[str] = []
        place.mkdir()
        self.machine = RunningMachine("guest", place, process(os.getpid()))
        self.host = RunningMachine("host", place, process(os.getpid()))
        self._boot()

    def _boot(self) -> None:
        self.boots += 1
        said = self.said if self.boots <= self.fail else ""
        (self.machine.directory / QEMU_LOG).write_text(said)

    def command(self, machine: RunningMachine, words: str, limit_s: float) -> str:
        if machine is self.host:
            self._boot()
        elif self.boots <= self.fail:
            raise LabError("it is gone" if not machine.alive else f"not in {limit_s} s: {words}")
        return ""


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Guest:
    fail, said = request.param
    found = Guest(tmp_path / "guest", fail, said)

    def command(machine: RunningMachine, words: str, limit_s: float = 0) -> str:
        return found.command(machine, words, limit_s)

    monkeypatch.setattr(RunningMachine, "command", command)
    return found


@pytest.mark.parametrize("guest", [(1, GIVEN_UP)], indirect=True)
def test_it_is_booted_again(guest: Guest) -> None:
    wait_for_nested(guest.machine, guest.host, guest.told.append)
    assert guest.boots == 2
    assert guest.told == ["machine guest: its host's KVM gave it up: booting it again"]
    assert guest.machine.alive


@pytest.mark.parametrize("guest", [(BOOTS, GIVEN_UP)], indirect=True)
def test_not_for_ever(guest: Guest) -> None:
    with pytest.raises(LabError, match="it is gone"):
        wait_for_nested(guest.machine, guest.host, guest.told.append)
    assert guest.boots == BOOTS


@pytest.mark.parametrize("guest", [(1, "qemu: no memory\n")], indirect=True)
def test_what_failed_otherwise_is_told_at_once(guest: Guest) -> None:
    with pytest.raises(LabError, match="did not come up"):
        wait_for_nested(guest.machine, guest.host, guest.told.append)
    assert (guest.boots, guest.told) == (1, [])
