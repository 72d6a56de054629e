# SPDX-License-Identifier: Apache-2.0
"""compare: verdicts, exit statuses, and what cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iostrata.cli import status_of
from tests.cli.recordings import DISK, lossy_recording, small_recording, synced
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


def test_a_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = recording(tmp_path / "a", 30_000), recording(tmp_path / "b", 45_000)
    assert status_of(["compare", a, b]) == 0
    out = capsys.readouterr().out
    assert "device.data" in out
    assert "slower" in out
    assert "REGRESSION" not in out
    assert status_of(["compare", a, b, "--fail-above", "10%"]) == 9
    out = capsys.readouterr().out
    assert "REGRESSION  above 10.0% of A, total of all" in out
    assert max(map(len, out.splitlines())) <= 80
    assert status_of(["compare", a, b, "--fail-above", "50"]) == 0
    assert status_of(["compare", b, a, "--fail-above", "0"]) == 0
    assert "faster" in capsys.readouterr().out


def test_with_itself(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(RECORDINGS / "ext4_journal")
    assert status_of(["compare", path, path, "--fail-above", "0"]) == 0
    out = capsys.readouterr().out
    assert "slower" not in out
    assert "faster" not in out


def test_machines_that_one_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    """Law 4: what was not recorded is not zero."""
    nfs, kvm = str(RECORDINGS / "nfs"), str(RECORDINGS / "kvm_nfs")
    assert status_of(["compare", nfs, kvm]) == 0
    assert "\npath        not of the same machines" in capsys.readouterr().out
    assert status_of(["compare", kvm, kvm]) == 0
    assert "\npath" not in capsys.readouterr().out


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = recording(tmp_path / "a", 30_000), recording(tmp_path / "b", 45_000)
    wish = ["compare", a, b, "--by", "method", "--fail-above", "10%", "--json", "-"]
    assert status_of(wish) == 9
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "iostrata.comparison/1"
    (group,) = document["groups"]
    assert group["name"] == "fdatasync"
    device = next(row for row in group["layers"] if row["layer"] == "device.data")
    assert device["low_ns"] <= device["change_ns"] == 15_000 <= device["high_ns"]
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
    assert "lost        3 events of B" in capsys.readouterr().out


@pytest.mark.parametrize("limit", ["much", "-5%", "nan", "inf%", "10%%"])
def test_what_is_no_limit(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["compare", "/x", "/y", f"--fail-above={limit}"]) == 2
    assert "no percentage" in capsys.readouterr().err


def test_bad_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = recording(tmp_path / "a", 30_000)
    assert status_of(["compare", a, str(tmp_path / "none")]) == 3
    assert status_of(["compare", a]) == 2
    assert "Traceback" not in capsys.readouterr().err
