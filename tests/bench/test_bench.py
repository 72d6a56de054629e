# SPDX-License-Identifier: Apache-2.0
"""bench: phases become rows, writes belong to the phase in which they began."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.bench.place import test_file as made_file
from iostrata.bench.result import COLUMNS, Measurement, measure, summarise_tests
from iostrata.bench.show import lines
from iostrata.cli import status_of
from iostrata.cli.bench import _workload
from iostrata.errors import UsageError
from iostrata.layers import ROWS
from iostrata.recording import open_recording
from iostrata.workload import TESTS, Phase, main, read_phases
from tests.cli.recordings import DISK, synced, synchronous
from tests.synthetic import World, Writer, write


def test_every_layer_is_in_one_column() -> None:
    for row in ROWS:
        holders = [name for name, rows in COLUMNS.items() if row.name in rows]
        assert len(holders) == 1, row.name


def test_an_operation_is_all_its_writes(tmp_path: Path) -> None:
    """Two writes an operation: their layers add up to it, and the rest is `other`."""
    world = World()
    writer = Writer(world, 100, DISK, 1_000_000)
    begin = writer.now
    for _ in range(10):
        synchronous(writer, 30_000)
        synchronous(writer, 30_000)
    middle = writer.now
    for _ in range(10):
        synced(writer, 20_000)
    recording = open_recording(write(world, tmp_path / "machine"))
    phases = [
        Phase("Two", "open_datasync", begin, middle, 10),
        Phase("One", "fdatasync", middle, writer.now, 10),
        Phase("None", "write", writer.now, writer.now + 1000, 10),
    ]
    summary = summarise_tests(analyse(recording), phases)
    assert [(group.name, group.count) for group in summary.groups] == [
        ("Two: open_datasync", 20),
        ("One: fdatasync", 10),
    ]
    two, one, none = measure(phases, summary)
    assert two.column_ns
    assert one.column_ns
    assert two.column_ns["data"] == 60_000
    assert one.column_ns["data"] == 20_000
    assert one.column_ns["flush"] == 40_000
    assert two.other_ns == 2_000
    assert none.column_ns is None


PHASES = [
    Phase("Compare", "open_datasync", unavailable="Invalid argument"),
    Phase("Compare", "fdatasync", 0, 1_000_000_000, 6973),
    Phase("Non-sync'ed", "write", 0, 1_000_000_000, 3_038_164),
]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_plain_table(width: int) -> None:
    assert list(lines(measure(PHASES, None), width)) == [
        "                       ops/sec  us/op",
        "",
        "Compare:",
        "  open_datasync            n/a  Invalid argument",
        "  fdatasync               6973  143.4",
        "",
        "Non-sync'ed:",
        "  write                3038164    0.3",
    ]


def test_what_is_seldom_there_is_shown_when_it_is() -> None:
    local = dict.fromkeys(COLUMNS, 1000.0) | {"host": 0.0, "net": 0.0}
    heads = [
        next(lines([Measurement(PHASES[1], held, 500.0)], 100)).split()
        for held in (local, local | {"net": 80_000.0})
    ]
    assert heads[0] == ["ops/sec", "us/op", "cpu", "journ", "queue", "data", "flush", "wake",
                        "other"]  # fmt: skip
    assert set(heads[1]) - set(heads[0]) == {"net"}


def test_the_workload_runs_every_test(tmp_path: Path) -> None:
    phases = tmp_path / "phases"
    with made_file(tmp_path / "file") as file:
        assert main(str(file), "0.01", str(phases)) == 0
    assert not (tmp_path / "file").exists()
    found = read_phases(phases)
    assert [(phase.group, phase.name) for phase in found] == [
        (test.group, test.name) for test in TESTS
    ]
    assert all(phase.operations or phase.unavailable for phase in found)


def ended_tests(file: str) -> int:
    """How many of the tests of that file have ended, by what its workload wrote of them."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"iostrata.workload" in words and os.fsencode(file) in words:
                return Path(os.fsdecode(words[-2])).read_bytes().count(b"\n")
    return 0


def interrupted(directory: Path, *options: str) -> tuple[int, str, str]:
    """Status and output of a bench that Ctrl-C ends in its second test."""
    file = directory / "file"
    with subprocess.Popen(
        [sys.executable, "-m", "iostrata", "bench", "-s", "1.5", "-f", str(file), *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        while not ended_tests(str(file)):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_an_interrupted_bench_shows_what_it_has(tmp_path: Path) -> None:
    status, out, err = interrupted(tmp_path, "--no-record")
    assert status == 130
    assert "Traceback" not in err
    rows = [line for line in out.splitlines() if line.startswith("  ")][1:]
    assert 1 <= len(rows) < len(TESTS)
    assert all(" n/a" in row or float(row.split()[-1]) > 0 for row in rows)
    assert not list(tmp_path.iterdir())


def test_the_file_is_removed_whatever_happens(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), made_file(tmp_path / "file"):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_a_file_that_exists_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "file"
    precious.write_text("thesis")
    with pytest.raises(UsageError, match="would be overwritten"), made_file(precious):
        pass
    assert precious.read_text() == "thesis"


def test_without_recording(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "file")
    assert status_of(["bench", "-s", "0.01", "--no-record", "-f", file, "--json", "-"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["schema"] == "iostrata.bench/1"
    assert document["breakdown"] is None
    assert len(document["tests"]) == len(TESTS)
    assert not list(tmp_path.iterdir())


def test_what_lies_where_it_is_called_is_no_part_of_it(tmp_path: Path) -> None:
    """It is called as root, where anybody may have left a package."""
    for name in ("iostrata", "struct"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("open('taken', 'w')\n")
    words = _workload(tmp_path / "no" / "data", 0.1, tmp_path)
    subprocess.run(words, cwd=tmp_path, check=False, capture_output=True)
    assert not (tmp_path / "taken").exists()
