# SPDX-License-Identifier: Apache-2.0
"""A machine that is slow on purpose, or says more than anybody reads: nobody waits for it for ever.

``waited_for`` is what a program there makes when it was.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iostrata.cli import status_of
from iostrata.foreign import MOST_SAID
from iostrata.record.permission import BTF
from tests.record.far import UNTIL_THEN, Far
from tests.record.test_machines import RECORD, names

pytestmark = pytest.mark.skipif(not BTF.exists(), reason="this kernel has no BTF")
DRIPPING = "while printf x; do sleep 0.2; done"


def interrupting(program: str) -> str:
    """That presses Ctrl-C, and takes its time."""
    return f'kill -INT {os.getpid()}; sleep 5; touch $MACHINE/waited_for; exec {program} "$@"'


def becomes(far: Far, machine: str, program: str, script: str) -> None:
    """When the command has begun."""
    far.has(machine, f"{program}.later", f"#!/bin/bash\n{script}\n")
    far.happens(machine, f"mv $MACHINE/{program}.later $MACHINE/{program}")


def waited_for(far: Far) -> bool:
    return (far.directory / "nas" / "waited_for").exists()


def test_a_machine_that_drips_is_given_up(
    far: Far, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("iostrata.record.answer.SLOW_LIMIT_S", 6.0)
    # It ends by itself in the end, as tests do; before, where nobody listens any more.
    dripping = f"timeout 40 bash -c '{DRIPPING}'"
    becomes(far, "nas", "head", f"{dripping}; [ $? = 124 ] && touch $MACHINE/waited_for")
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 0
    assert not waited_for(far)
    told = capfd.readouterr().err
    assert "machine server: it sent " in told
    assert " bytes in 6 s; what it recorded is in nas:" in told
    assert ", for a week, what came of it in out/server" in told
    assert (names("machines"), names("absent")) == (["guest"], ["server"])


def test_what_came_of_a_trace_says_that_it_is_a_part(
    far: Far, capfd: pytest.CaptureFixture[str]
) -> None:
    """What tells of its end comes last."""
    becomes(far, "nas", "head", 'case $3 in facts/*) exit 1;; esac; exec /usr/bin/head "$@"')
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 0
    capfd.readouterr()
    assert status_of(["replay", "out/server"]) in (5, 7)
    assert "recorder: " in "".join(capfd.readouterr())


def test_ctrl_c_ends_fetching(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    becomes(far, "nas", "wc", interrupting("/usr/bin/wc"))
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 0
    assert not waited_for(far)
    told = capfd.readouterr().err
    assert "machine server: it was not waited for any longer; what it recorded is in nas:" in told
    assert (names("machines"), names("absent")) == (["guest"], ["server"])
    assert len(far.left_over()) == 1


def test_ctrl_c_ends_tidying(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    becomes(far, "nas", "rm", interrupting("/bin/rm"))
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 0
    assert not waited_for(far)
    told = capfd.readouterr().err
    assert " may be left there, for a week\n" in told
    assert names("machines") == ["guest", "server"]


def test_ctrl_c_ends_preparing(far: Far) -> None:
    far.says("nas", "sha256sum", interrupting("/usr/bin/sha256sum"))
    assert status_of([*RECORD, "--", "touch", "ran"]) == 130
    assert not waited_for(far)
    assert not Path("ran").exists()
    assert far.left_over() == []


def test_who_has_nothing_of_the_workload_fails(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    becomes(far, "vm", "wc", "exit 1")
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 6
    told = capfd.readouterr().err
    assert "iostrata: machine guest: nothing of the workload is in the recording" in told
    assert (names("machines"), names("absent")) == (["server"], ["guest"])


@pytest.mark.parametrize("program", ["uname", "id", "failing", "sha256sum"])
def test_what_a_machine_says_is_no_flood(
    program: str, far: Far, capfd: pytest.CaptureFixture[str]
) -> None:
    flood = "\x1b[31m\u202eA" * 30_000
    if program == "failing":
        far.has("nas", program, flood[:30_000])
    else:
        far.has("nas", "flood", flood)
        far.says("nas", program, "cat $MACHINE/flood; tr A '\\n' <$MACHINE/flood")
    assert status_of([*RECORD, "--", "true"]) in (4, 6)
    told = capfd.readouterr().err
    assert r"\x1b[31m" in told
    assert "\x1b" not in told
    assert all(len(line) < 2 * MOST_SAID for line in told.splitlines())
    assert len(told.splitlines()) < 20
