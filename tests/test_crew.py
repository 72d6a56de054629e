# SPDX-License-Identifier: Apache-2.0
"""Several processes do what one does: the same, in the same order, and none of them stays."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from iostrata import crew
from iostrata.analysis import analyse
from iostrata.model import Op
from iostrata.recording import open_recording

RECORDINGS = Path(__file__).parent / "recordings"


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


@pytest.mark.parametrize("jobs", [1, 2, 3, 50])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 11])
def test_each_in_order(jobs: int, count: int) -> None:
    before = children()
    pieces = list(range(count))
    found = list(crew.each(lambda piece: (piece, os.getpid()), pieces, jobs))
    assert [piece for piece, _ in found] == pieces
    helped = {pid for _, pid in found} - {os.getpid()}
    assert len(helped) == (min(jobs, count - 1) if jobs > 1 and count >= crew.FEWEST else 0)
    assert children() == before


@pytest.mark.parametrize("jobs", [1, 2, 3, 50])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 11])
def test_apart_in_order(jobs: int, count: int) -> None:
    """This process has a share as large as any other's."""
    before = children()
    pieces = list(range(count))
    found = list(crew.apart(lambda piece: (piece, os.getpid()), pieces, jobs))
    assert [piece for piece, _ in found] == pieces
    assert len({pid for _, pid in found}) == min(jobs, count)
    assert [piece for piece, pid in found if pid == os.getpid()] == pieces[::jobs]
    assert children() == before


@pytest.mark.parametrize("by", [crew.each, crew.apart])
def test_what_a_process_does_not_finish_is_done_here(by: Callable[..., Iterator[int]]) -> None:
    own = os.getpid()

    def work(piece: int) -> int:
        if piece == 5 and os.getpid() != own:
            os.kill(os.getpid(), signal.SIGKILL)
        if piece == 4 and os.getpid() != own:
            raise ValueError("here it is told to nobody")
        return piece * piece

    assert list(by(work, list(range(9)), 2)) == [piece * piece for piece in range(9)]


@pytest.mark.parametrize("by", [crew.each, crew.apart])
def test_an_error_is_that_of_one_process(by: Callable[..., Iterator[int]]) -> None:
    before = children()

    def work(piece: int) -> int:
        if piece == 5:
            raise ValueError(f"of {piece}")
        return piece

    found = by(work, list(range(9)), 2)
    assert [next(found) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="of 5"):
        next(found)
    assert children() == before


@pytest.mark.parametrize("by", [crew.each, crew.apart])
def test_where_there_can_be_no_more_processes_one_is_enough(
    by: Callable[..., Iterator[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> int:
        raise BlockingIOError

    before = children()
    monkeypatch.setattr(os, "fork", refused)
    assert list(by(str, list(range(9)), 2)) == [str(piece) for piece in range(9)]
    assert children() == before


@pytest.mark.parametrize("jobs", [1, 2, 50])
@pytest.mark.parametrize("count", [0, 1, 2, 11])
def test_threads_do_each_and_end(jobs: int, count: int) -> None:
    before = threading.active_count()
    names: set[str] = set()

    def work(piece: int) -> int:
        names.add(threading.current_thread().name)
        return piece * piece

    assert crew.by_threads(work, range(count), jobs) == [piece * piece for piece in range(count)]
    assert threading.active_count() == before
    if jobs == 1:
        assert names <= {threading.current_thread().name}


def test_the_first_error_of_threads_is_told() -> None:
    before, begun = threading.active_count(), []

    def work(piece: int) -> None:
        begun.append(piece)
        if piece >= 3:
            raise ValueError(f"of {piece}")

    with pytest.raises(ValueError, match="of 3"):
        crew.by_threads(work, range(1000), 2)
    assert threading.active_count() == before
    assert len(begun) < 1000


def test_an_interrupt_ends_threads() -> None:
    before = threading.active_count()

    def work(piece: int) -> None:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        crew.by_threads(work, range(1000), 3)
    assert threading.active_count() == before


def test_where_there_can_be_no_more_threads_one_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert crew.by_threads(str, range(9), 3) == [str(piece) for piece in range(9)]


def test_both_come_to_what_each_does() -> None:
    assert crew.both(lambda: 1, lambda: "2", 2) == (1, "2")


def same(one: Any, other: Any) -> None:
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for name, value in one.items():
            same(value, other[name])
    elif hasattr(one, "__dict__"):
        same(vars(one), vars(other))
    else:
        assert one == other


# Of the last two it is told who was behind what the writes waited for.
@pytest.mark.parametrize(
    "name", ["four_methods", "kvm_nfs", "xfs_log", "asynchronous", "nfs_restart", "rbd"]
)
def test_the_analysis_is_the_same_by_several_processes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iostrata.stitch.window.WINDOW_PIECES", 10)
    forked: list[int] = []
    fork = os.fork

    def counted() -> int:
        forked.append(0)
        return fork()

    alone = analyse(open_recording(RECORDINGS / name))
    monkeypatch.setattr(os, "fork", counted)
    together = analyse(open_recording(RECORDINGS / name), Op.SYNC, 3)
    assert len(forked) == 3
    same(SimpleNamespace(found=alone), SimpleNamespace(found=together))


def test_no_more_processes_than_are_worth_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert crew.cpus() == crew.MOST
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert crew.cpus() == 1
