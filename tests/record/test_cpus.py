# SPDX-License-Identifier: Apache-2.0
"""CPUs that the recorder has no room for are refused, not recorded into another's ring."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.record.native import BPF, FLAGS, Program, compiled


@pytest.fixture(scope="module")
def cpus(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return compiled(tmp_path_factory.mktemp("cpus"), "cpus", "cpus", "say")


@pytest.mark.parametrize(
    ("online", "limit"),
    [("0", 1), ("0-1", 2), ("0-3,6", 7), ("0,2-5,8-9", 10), ("0-511", 512), ("511", 512)],
)
def test_the_highest_number_decides(cpus: Program, online: str, limit: int, tmp_path: Path) -> None:
    (tmp_path / "online").write_text(f"{online}\n")
    assert cpus.run(tmp_path / "online").stdout == f"{limit}\n"


@pytest.mark.parametrize("online", ["0-639", "0-3,512"])
def test_more_than_there_is_room_for_is_refused(cpus: Program, online: str, tmp_path: Path) -> None:
    (tmp_path / "online").write_text(f"{online}\n")
    done = cpus.run(tmp_path / "online")
    assert done.returncode == 1
    number = online.rsplit("-", maxsplit=1)[-1].rsplit(",", maxsplit=1)[-1]
    assert f"a CPU with the number {number}, and the recorder has room for those below 512" in (
        done.stderr
    )


def test_no_list_is_refused(cpus: Program, tmp_path: Path) -> None:
    done = cpus.run(tmp_path / "online")
    assert done.returncode == 1
    assert "cannot be read: No such file or directory" in done.stderr


@pytest.mark.parametrize(("more", "good"), [(0, True), (64, False)])
def test_more_points_than_there_is_room_for_do_not_compile(
    more: int, good: bool, tmp_path: Path
) -> None:
    """The table of losses has a place for each point."""
    text, begin = (BPF / "events.h").read_text(), "#define POINTS(P) "
    extra = "".join(f"P(extra_{number}, miss_event) " for number in range(more))
    assert begin in text
    (tmp_path / "events.h").write_text(text.replace(begin, begin + extra))
    source = tmp_path / "points.c"
    source.write_text('#include "record.h"\n')
    places = [f"-I{place}" for place in (tmp_path, BPF, BPF / "record")]
    done = subprocess.run(
        ["cc", *FLAGS, *places, "-fsyntax-only", source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == good
    assert ("raise it in shared.h" in done.stderr) != good
