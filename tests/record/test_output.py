# SPDX-License-Identifier: Apache-2.0
"""--force removes the trace in the directory that was named, and nothing that a link leads to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.record.native import Program, compiled


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return compiled(tmp_path_factory.mktemp("output"), "output", "output", "limits", "say")


def trace(directory: Path) -> Path:
    (directory / "facts").mkdir(parents=True)
    for name in ("recorder", "cpu_0", "cpu_1.zst", "facts/block", "facts/any"):
        (directory / name).write_text(name)
    return ours(directory)


def ours(directory: Path) -> Path:
    (directory / "metadata").write_text("/* CTF 1.8 */\nenv {\n\tiostrata_format = 1;\n};\n")
    return directory


def everything(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_a_trace_is_removed_and_no_more(output: Program, tmp_path: Path) -> None:
    mine = trace(tmp_path / "mine")
    (mine / "notes").write_text("kept")
    assert output.run(mine).returncode == 0
    assert everything(mine) == {"notes"}


@pytest.mark.parametrize("metadata", ["/* CTF 1.8 */ of LTTng", "", None])
def test_what_is_no_trace_of_ours_stays(
    metadata: str | None, output: Program, tmp_path: Path
) -> None:
    other = trace(tmp_path / "other")
    (other / "metadata").unlink()
    if metadata is not None:
        (other / "metadata").write_text(metadata)
    before = everything(other)
    done = output.run(other)
    assert done.returncode == 1
    assert "something else than a trace of ours" in done.stderr
    assert everything(other) == before


def test_a_pipe_is_not_waited_for(output: Program, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metadata")
    assert output.run(tmp_path).returncode == 1
    assert everything(tmp_path) == {"metadata"}


def test_what_no_recorder_writes_stays_beside_it(output: Program, tmp_path: Path) -> None:
    mine = trace(tmp_path / "mine")
    foreign = {
        "cpu_notes",
        "cpu_",
        "cpu_.zst",
        "cpu_1.zst.bak",
        "cpu_1z",
        "recorder.zst",
        "facts/Thesis",
        "facts/thesis.tex",
    }
    for name in foreign:
        (mine / name).touch()
    assert output.run(mine).returncode == 0
    assert everything(mine) == foreign | {"facts"}


def test_a_link_to_a_directory_is_refused(output: Program, tmp_path: Path) -> None:
    other = trace(tmp_path / "other")
    before = everything(other)
    (tmp_path / "link").symlink_to(other)
    done = output.run(tmp_path / "link")
    assert done.returncode == 1
    assert "link cannot be opened" in done.stderr
    assert everything(other) == before


def test_links_inside_are_removed_and_not_followed(output: Program, tmp_path: Path) -> None:
    other, mine = trace(tmp_path / "other"), tmp_path / "mine"
    before = everything(other)
    mine.mkdir()
    ours(mine)
    (mine / "facts").symlink_to(other / "facts")
    (mine / "cpu_0").symlink_to(other / "cpu_0")
    assert output.run(mine).returncode == 0
    assert everything(mine) == set()
    assert everything(other) == before
