# SPDX-License-Identifier: Apache-2.0
"""compare: verdicts, exit statuses, and what cannot be compared."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from iostrata.cli import status_of
from iostrata.recording import RecordedMachine, write_recording_json
from tests.analysis.test_left_over import NFS, commit_call, sleeper
from tests.cli.recordings import DISK, WRITES, lossy_recording, small_recording, synced
from tests.synthetic import World, Writer, write

RECORDINGS = Path(__file__).parents[1] / "recordings"


def recording(directory: Path, device_ns: int) -> str:
    world = World()
    world.builder.block(DISK, "vda", scheduler="mq-deadline")
    writer = Writer(world, 100, DISK, 1_000_000)
    for number in range(60):
        writer.now += 100_000
        synced(writer, device_ns + 37 * (number % 7))
    return str(write(world, directory))


def series(directory: Path, device_ns: int, runs: int = 3) -> str:
    """Side by side in one directory, as record --repeat leaves them; each 1 % from the next."""
    directory.mkdir()
    machine = RecordedMachine("local", "local", "local")
    for number in range(runs):
        run = directory / str(number + 1)
        recording(run / "local", device_ns + number * device_ns // 100)
        write_recording_json(run, (machine,), created=f"2026-11-21T10:0{number}:00+00:00")
    return str(directory)


def test_a_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = series(tmp_path / "a", 30_000), series(tmp_path / "b", 45_000)
    assert status_of(["compare", a, b]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"A: {a}/1 {a}/2 {a}/3\n" if len(a) < 20 else "A: ")
    assert "all: 180 writes in 3 runs of A, 180 writes in 3 runs of B" in out
    assert re.search(r"^  device.data .* slower$", out, re.MULTILINE)
    assert "REGRESSION" not in out
    assert status_of(["compare", a, b, "--fail-above", "10%"]) == 9
    out = capsys.readouterr().out
    assert "REGRESSION  above 10.0% of A, total of all" in out
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= 80
    assert status_of(["compare", a, b, "--fail-above", "50"]) == 0
    assert status_of(["compare", b, a, "--fail-above", "0"]) == 0
    assert "faster" in capsys.readouterr().out


def test_what_is_many_times_as_slow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = series(tmp_path / "a", 10), series(tmp_path / "b", 8_000_000)
    assert status_of(["compare", a, b]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^  device.data .* \+[0-9]+x slower$", out, re.MULTILINE)


def test_which_are_whose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = series(tmp_path / "a", 30_000, 4), series(tmp_path / "b", 45_000)
    assert status_of(["compare", a, b, "--json", "-"]) == 0
    of_names = json.loads(capsys.readouterr().out)
    apart = [*(f"{a}/{n}" for n in (1, 2, 3, 4)), "--", f"{b}/1", f"{b}/2", f"{b}/3"]
    for words in (
        ["compare", *apart, "--json", "-"],
        ["compare", "--json=-", *apart],
        ["compare", a, "--", "--json", "-", b],
    ):
        assert status_of(words) == 0
        assert json.loads(capsys.readouterr().out) == of_names
    assert of_names["runs"] == {"a": 4, "b": 3}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["A/1", "A/2", "B"], "which of these 3 recordings are the first side's?"),
        (["A"], "two sides are to be compared"),
        (["--", "A"], "two sides are to be compared"),
        (["A", "--"], "two sides are to be compared"),
        (["A", "--", "B", "--", "A"], "two sides are to be compared"),
        (["A", "A/2", "--", "B"], "A/2 is given twice for one side"),
        (["A/1", "B/1", "--fail-above", "10%"], "--fail-above needs several runs of each side"),
        (["A", "B/1", "--fail-above", "10%"], "--fail-above needs several runs of each side"),
    ],
)
def test_what_is_no_comparison(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    series(tmp_path / "A", 30_000)
    series(tmp_path / "B", 45_000)
    assert status_of(["compare", *words]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert "\n  try: " in err


def test_one_run_of_a_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = recording(tmp_path / "a", 30_000), recording(tmp_path / "b", 45_000)
    assert status_of(["compare", a, b]) == 0
    out = capsys.readouterr().out
    assert "\nruns        no verdict: " in out
    assert "slower" not in out
    assert re.search(r"^  device.data +30.11 +45.11 +\+15.00 .*\+\d+.\d%$", out, re.MULTILINE)


def test_with_itself(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(RECORDINGS / "ext4_journal")
    assert status_of(["compare", path, path]) == 0
    out = capsys.readouterr().out
    assert "slower" not in out
    assert "faster" not in out
    assert "\nthe same    A and B are the same recording: " in out


def test_a_run_on_both_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = series(tmp_path / "a", 30_000), series(tmp_path / "b", 45_000)
    (tmp_path / "link").symlink_to(f"{a}/2")
    given = [a, "--", b, str(tmp_path / "link")]
    assert status_of(["compare", *given]) == 0
    assert "\nthe same    1 run of A is in B, too: " in capsys.readouterr().out
    assert status_of(["compare", *given, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["on_both"] == 1
    assert status_of(["compare", a, b]) == 0
    assert "the same" not in capsys.readouterr().out
    assert status_of(["compare", a, a]) == 0
    assert "\nthe same    A and B are the same recordings: " in capsys.readouterr().out


def test_machines_that_one_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    """Law 4: what was not recorded is not zero."""
    nfs, kvm = str(RECORDINGS / "nfs"), str(RECORDINGS / "kvm_nfs")
    assert status_of(["compare", nfs, kvm]) == 0
    assert "\npath        not of the same machines" in capsys.readouterr().out
    assert status_of(["compare", kvm, kvm]) == 0
    assert "\npath" not in capsys.readouterr().out


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = series(tmp_path / "a", 30_000), series(tmp_path / "b", 45_000)
    wish = ["compare", a, b, "--by", "method", "--fail-above", "10%", "--json", "-"]
    assert status_of(wish) == 9
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "iostrata.comparison/2"
    assert document["runs"] == {"a": 3, "b": 3}
    (group,) = document["groups"]
    assert group["name"] == "fdatasync"
    device = next(row for row in group["layers"] if row["layer"] == "device.data")
    assert device["low_ns"] <= device["change_ns"] == 15_150 <= device["high_ns"]
    assert device["verdict"] == "slower"
    assert {one["row"] for one in document["regressions"]} == {"total", "p50", "p99", "device.data"}


def test_groups_of_one_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = recording(tmp_path / "a", 30_000), str(small_recording(tmp_path / "b"))
    assert status_of(["compare", a, b, "--by", "method"]) == 0
    assert "only in B   open_datasync" in capsys.readouterr().out
    assert status_of(["compare", a, b]) == 0
    assert "compare --by method" in " ".join(capsys.readouterr().out.split())
    other = str(RECORDINGS / "ext4_journal")
    assert status_of(["compare", a, other, "--by", "process"]) == 2
    assert "have no process in common" in capsys.readouterr().err


def test_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = recording(tmp_path / "a", 30_000), str(lossy_recording(tmp_path / "b"))
    assert status_of(["compare", a, b]) == 7
    out = capsys.readouterr().out
    assert "lost        3 events of B" in out
    (count,) = re.findall(r"\nleft out    of B: events lost meanwhile \((\d+)\)\n", out)
    assert status_of(["compare", a, b, "--json", "-"]) == 7
    document = json.loads(capsys.readouterr().out)
    left_out = {"events lost meanwhile": int(count)}
    assert document["left_out"] == {"a": {}, "b": left_out}
    assert document["groups"][0]["writes_b"] + int(count) == 2 * WRITES


def test_what_is_left_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The document says it, too, and not the exit status alone."""
    world = World()
    sleeper(world, NFS)
    commit_call(world, 50_000, 250_000)
    a, b = recording(tmp_path / "a", 30_000), str(write(world, tmp_path / "b"))
    for words, left_over in (([a, b], ["b"]), ([b, b], ["a", "b"])):
        assert status_of(["compare", *words, "--json", "-"]) == 7
        assert json.loads(capsys.readouterr().out)["left_over"] == left_over


def test_a_series_is_no_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["replay", series(tmp_path / "a", 30_000)]) == 3
    err = capsys.readouterr().err
    assert "a is no recording: it holds 3" in err
    assert f"such as {tmp_path}/a/1" in err


@pytest.mark.parametrize("limit", ["much", "-5%", "nan", "inf%", "10%%"])
def test_what_is_no_limit(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["compare", "/x", "/y", f"--fail-above={limit}"]) == 2
    assert "no percentage" in capsys.readouterr().err


def test_bad_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = recording(tmp_path / "a", 30_000)
    assert status_of(["compare", a, str(tmp_path / "none")]) == 3
    assert status_of(["compare", a]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(("most_bytes", "processes"), [(1 << 30, 3), (0, 1)])
def test_runs_are_analysed_at_once_where_there_is_room(
    most_bytes: int,
    processes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever does it, what comes of it is the same."""
    a, b = series(tmp_path / "a", 30_000), series(tmp_path / "b", 45_000)
    assert status_of(["compare", a, b, "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    forked = Mock(wraps=os.fork)
    monkeypatch.setattr(os, "fork", forked)
    monkeypatch.setattr("iostrata.cli.compare.MOST_BYTES", most_bytes)
    assert status_of(["compare", a, b, "--jobs", "3"]) == 0
    assert capsys.readouterr().out == told
    assert forked.call_count == processes - 1


def test_what_another_process_fails_at_is_an_error_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = series(tmp_path / "a", 30_000), series(tmp_path / "b", 45_000)
    (tmp_path / "b" / "2" / "local" / "metadata").write_bytes(b"none")
    assert status_of(["compare", a, b, "--jobs", "1"]) == 3
    told = capsys.readouterr()
    assert status_of(["compare", a, b, "--jobs", "2"]) == 3
    assert capsys.readouterr() == told
