# SPDX-License-Identifier: Apache-2.0
"""Labs at the same time, of one user or of several: none touches what is another's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from iostrata.analysis import analyse
from iostrata.errors import LabError
from iostrata.lab.cache import KEPT_S, LabDirectory, new_lab_directory
from iostrata.lab.checks import Check
from iostrata.lab.process import Process, process
from iostrata.lab.read import read_scenario
from iostrata.lab.run import Result, RoundResult, run
from iostrata.lab.standing import MachineState, find_machine, new_state, take_down, write_state
from iostrata.recording import open_recording
from tests.lab.scenarios import document, write
from tests.lab.test_parts import Heard

LIMIT_S = 900
SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
ENDED = Process(1, -1)


@pytest.fixture
def sleepers() -> Iterator[ExitStack]:
    with ExitStack() as ended:
        yield ended


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    if not request.node.get_closest_marker("lab"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def stands(
    sleepers: ExitStack, scenario: str = "local", **state: Any
) -> tuple[LabDirectory, Process]:
    """What a lab leaves when it is kept, or killed; and its one machine, a process that sleeps."""
    directory = new_lab_directory(scenario)
    machine = sleepers.enter_context(subprocess.Popen(SLEEP))
    sleepers.callback(machine.terminate)
    states = (MachineState("local", process(machine.pid), "machines/local"),)
    given = {"owner": ENDED, "machines": states, **state}
    write_state(directory, msgspec.structs.replace(new_state(), **given))
    return directory, process(machine.pid)


def test_a_run_leaves_the_recordings_of_another_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins and ends while the first has recorded one of its rounds."""
    stage = sys.modules[run.__module__]
    scenario = read_scenario(write(document(), tmp_path))
    others: list[Result] = []

    def rounds(
        lab: None, workload: None, only: None, recordings: Path, listener: Heard
    ) -> Iterator[RoundResult]:
        recording = recordings / "fdatasync"
        recording.mkdir()
        if not others:
            others.append(Result("none yet", recordings, (), ()))
            others.append(run(scenario, "local", Heard(), keep=False))
        yield RoundResult("fdatasync", recording, None, (Check("lost", True, "0", "0"),))  # type: ignore[arg-type]

    monkeypatch.setattr(stage, "furnished", lambda *ignored: nullcontext())
    monkeypatch.setattr(stage, "_observe", lambda *ignored: None)
    monkeypatch.setattr(stage, "_rounds", rounds)
    first, second = run(scenario, "local", Heard(), keep=False), others[1]
    assert first.recordings != second.recordings
    assert [each.recording.is_dir() for result in (first, second) for each in result.rounds] == [
        True,
        True,
    ]


def test_what_was_left_standing_is_taken_down(sleepers: ExitStack) -> None:
    place, machine = stands(sleepers)
    assert find_machine("local").directory == place.machines / "local"
    assert find_machine("local.1/local").directory == place.machines / "local"
    take_down(heard := Heard())
    assert heard.lines == [f"ending machine local, process {machine.pid}"]
    assert not machine.alive
    assert not place.path.exists()
    with pytest.raises(LabError, match="no machine local stands"):
        find_machine("local")


def test_recordings_outlive_the_machines(sleepers: ExitStack) -> None:
    place, _ = stands(sleepers)
    (place.recordings / "fdatasync").mkdir(parents=True)
    take_down(Heard())
    assert [*place.path.iterdir()] == [place.recordings]
    assert new_lab_directory("local").name == "local.2"


def test_recordings_that_nobody_took_go_after_a_week() -> None:
    old, young = (new_lab_directory("local") for _ in range(2))
    past = time.time() - KEPT_S - 60
    for each in (old, young):
        each.recordings.mkdir()
    os.utime(old.path, (past, past))
    assert new_lab_directory("local").name == "local.1"
    assert not old.recordings.exists()
    assert young.recordings.exists()


@pytest.mark.parametrize(
    ("state", "said"),
    [
        pytest.param(
            {"owner": process(os.getpid())}, f"which process {os.getpid()} runs", id="run"
        ),
        ({"user": "another"}, "of another, "),
        ({"checkout": "/elsewhere"}, ", /elsewhere"),
    ],
)
def test_a_lab_that_is_run_or_is_not_ours_is_left_alone(
    state: dict[str, Any], said: str, sleepers: ExitStack
) -> None:
    """Neither ``down`` alone nor the scenario's name ends it."""
    place, machine = stands(sleepers, **state)
    take_down(heard := Heard())
    assert len(heard.lines) == 1
    assert heard.lines[0].startswith("left alone: local.1")
    assert said in heard.lines[0]
    if "owner" in state:
        take_down(Heard(), ["local"])
    else:
        with pytest.raises(LabError, match="no lab local stands") as error:
            take_down(Heard(), ["local"])
        assert "local.1" in error.value.hint
        with pytest.raises(LabError, match="no machine local stands"):
            find_machine("local")
    assert machine.alive
    assert place.state.exists()


def test_another_users_lab_is_ended_by_its_own_name(sleepers: ExitStack) -> None:
    _, machine = stands(sleepers, user="another")
    take_down(Heard(), ["local.1"])
    assert not machine.alive


@pytest.mark.parametrize("names", [(), ("local",)])
def test_of_several_labs_none_is_ended_unless_it_is_named(
    names: tuple[str, ...], sleepers: ExitStack
) -> None:
    machines = {f"local.{number}": stands(sleepers)[1] for number in (1, 2)}
    with pytest.raises(LabError, match=r"2 stand: local\.1, local\.2"):
        take_down(Heard(), names)
    with pytest.raises(LabError, match="2 machines local stand") as error:
        find_machine("local")
    assert "local.1/local, local.2/local" in error.value.hint
    assert all(machine.alive for machine in machines.values())
    take_down(Heard(), ["local.1"])
    assert [name for name, machine in machines.items() if machine.alive] == ["local.2"]


@pytest.mark.lab
def test_two_labs_of_one_scenario_at_the_same_time(tmp_path: Path) -> None:
    """Each finds in its own recordings the writes that its own fio made."""
    outputs = [tmp_path / f"{number}.json" for number in range(2)]
    words = [sys.executable, "-m", "iostrata", "lab", "run", "local", "--round", "fdatasync"]
    running = [
        subprocess.Popen(
            [*words, "--json", str(output)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for output in outputs
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=LIMIT_S)[1] for process in running]
    finally:
        for process in running:
            process.terminate()
            process.wait()
    found: list[dict[str, Any]] = [json.loads(output.read_text()) for output in outputs]
    assert [each["broken"] for each in found] == [None, None], said
    recordings = [Path(each["rounds"][0]["recording"]) for each in found]
    assert len({*recordings}) == 2
    for recording, each in zip(recordings, found, strict=True):
        breakdown = analyse(open_recording(recording))
        counted = {check["name"]: check["found"] for check in each["rounds"][0]["checks"]}
        assert counted["count"] == str(len(breakdown.writes) + sum(breakdown.left_out.values()))
