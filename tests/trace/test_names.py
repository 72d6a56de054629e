# SPDX-License-Identifier: Apache-2.0
"""What processes are called: from when on, and by whatever bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.foreign import kept, shown
from iostrata.recording import open_recording
from iostrata.trace import ProcessNames, read_trace
from tests.synthetic import O_DSYNC, Request, World, Writer, device, write


def test_what_was_written_before_an_exec_is_the_first_programs(tmp_path: Path) -> None:
    world = World()
    writer = Writer(world, 100, device(8, 0), 1_000)
    for name, count in ((b"sh", 3), (b"dd", 5)):
        world.target(100, writer.now + 500, comm=name)
        for _ in range(count):
            writer.now += 1_000
            writer.enter()
            writer.cpu(100)
            writer.data(Request())
            writer.leave("write", flags=O_DSYNC, result=8192, size=8192)
            writer.finish()
    summary = summarise(analyse(open_recording(write(world, tmp_path / "r"))), "process")
    # The world's thread is told of once more at its begin, as "writer".
    assert {group.name: group.count for group in summary.groups} == {"sh (100)": 3, "dd (100)": 5}


def labels(world: World, path: Path, *asked: tuple[int, int]) -> list[str]:
    names = ProcessNames(read_trace(write(world, path)))
    tgid, time = np.array(asked, np.int64).T
    told, codes = names.at(tgid, time)[0]
    return [told[code] for code in codes]


def test_a_process_is_called_after_its_first_thread(tmp_path: Path) -> None:
    """Where a recording does not tell that, after any; before anything was told, what follows."""
    world = World()
    world.emit("thread", 50, 11, tgid=10, subject_tid=11, comm=b"worker")
    world.emit("thread", 60, 10, tgid=10, subject_tid=10, comm=b"java")
    world.emit("thread", 70, 11, tgid=10, subject_tid=11, comm=b"worker-1")
    world.emit("thread", 50, 21, tgid=20, subject_tid=21, comm=b"any")
    world.emit("thread", 50, 31, tgid=30, subject_tid=31, comm=b"worker", process=b"lead")
    asked = (10, 55), (10, 99), (20, 99), (30, 99), (40, 99)
    expected = ["java (10)", "java (10)", "any (20)", "lead (30)", "? (40)"]
    assert labels(world, tmp_path, *asked) == expected


def test_a_name_holds_until_the_next(tmp_path: Path) -> None:
    world = World()
    for time, name in ((100, b"one"), (200, b"two"), (300, b"one")):
        world.emit("thread", time, 10, tgid=10, subject_tid=10, comm=name)
    asked = [(10, time) for time in (1, 100, 199, 200, 299, 300, 999)]
    expected = ["one", "one", "one", "two", "two", "one", "one"]
    assert labels(world, tmp_path, *asked) == [f"{name} (10)" for name in expected]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"fio", "fio"),
        ("grün".encode(), "grün"),
        (b"a\x1b[31mb", r"a\x1b[31mb"),
        (b"\xc2\x9b31m", r"\x9b31m"),  # the C1 form of ESC [
        (b"\xff\xfe", r"\xff\xfe"),
        ("gr\N{LATIN SMALL LETTER U WITH DIAERESIS}".encode()[:-1], r"gr\xc3"),
        ("a\N{RIGHT-TO-LEFT OVERRIDE}b".encode(), r"a\u202eb"),
        (b"a\nb\tc", r"a\nb\tc"),
        (b"end\0rest", "end"),
    ],
)
def test_any_bytes_can_be_shown(name: bytes, text: str) -> None:
    assert shown(name) == text
    assert shown(kept(name)) == text
    assert kept(name).encode(errors="surrogateescape") == name.partition(b"\0")[0]
