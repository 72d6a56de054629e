# SPDX-License-Identifier: Apache-2.0
"""Pieces of work in, what each comes to out, in their order: by several processes at once, or by
several threads of this one.

Each process is this one's copy: what is there when they begin is shared, and what a piece
comes to is sent here. What nothing came of is done here instead, where what went wrong
becomes an error: nobody has to know in which process that was.

Threads are for what NumPy and C do most of: of Python itself, one at a time does some. They end
with it: none holds anything that a process which begins later would wait for.
"""

from __future__ import annotations

import os
import pickle
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from fcntl import F_SETPIPE_SZ, fcntl
from threading import Thread
from typing import Any, BinaryIO, Final, TypeVar

FEWEST: Final = 4
"""So few pieces are done before others have begun."""

MOST: Final = 4

PIPE_BYTES: Final = 1 << 20
"""Mostly what a piece comes to: nobody waits until it is taken. More are not allowed to users."""

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Other = TypeVar("Other")


def cpus() -> int:
    """How many processes can run at once; no more than are worth the memory that each takes."""
    return min(len(os.sched_getaffinity(0)), MOST)


def each(
    work: Callable[[Piece], Result], pieces: Sequence[Piece], jobs: int = 1
) -> Iterator[Result]:
    """What the work makes of each of the pieces.

    The first is always done here: what all need is read by then, and shared.
    """
    yield from map(work, pieces[:1])
    rest = pieces[1:]
    crew: list[_Worker] = []
    try:
        if jobs > 1 and len(pieces) >= FEWEST:
            _begin(crew, work, _shares(rest, jobs))
        for number, piece in enumerate(rest):
            found = crew[number % len(crew)].next() if crew else []
            yield found[0] if found else work(piece)
    finally:
        for worker in crew:
            worker.end()


def apart(
    work: Callable[[Piece], Result], pieces: Sequence[Piece], jobs: int = 1
) -> Iterator[Result]:
    """As ``each``, of pieces that have nothing in common: this process is one of those."""
    crew: list[_Worker] = []
    try:
        _begin(crew, work, _shares(pieces, jobs)[1:])
        for number, piece in enumerate(pieces):
            turn = number % (len(crew) + 1)
            found = crew[turn - 1].next() if turn else []
            yield found[0] if found else work(piece)
    finally:
        for worker in crew:
            worker.end()


def _shares(pieces: Sequence[Piece], jobs: int) -> list[Sequence[Piece]]:
    """By turns."""
    many = min(jobs, len(pieces))
    return [pieces[number::many] for number in range(many)]


def by_threads(
    work: Callable[[Piece], Result], pieces: Sequence[Piece], jobs: int = 1
) -> list[Result]:
    """What the work makes of each of the pieces, or the error of the first that has one."""
    left = iter(list(enumerate(pieces)))
    found: dict[int, Result] = {}
    errors: dict[int, Exception] = {}

    def take() -> None:
        for number, piece in left:
            try:
                found[number] = work(piece)
            except Exception as error:
                errors[number] = error
                deque(left, maxlen=0)

    threads: list[Thread] = []
    try:
        # Where there can be no more of them, this one is enough.
        with suppress(RuntimeError):
            for _ in range(min(jobs, len(pieces)) - 1):
                thread = Thread(target=copy_context().run, args=(take,))
                thread.start()
                threads.append(thread)
        take()
    finally:
        # Nor does anybody begin another piece after an interrupt.
        deque(left, maxlen=0)
        for thread in threads:
            thread.join()
    if errors:
        raise errors[min(errors)]
    return [found[number] for number in range(len(pieces))]


def both(
    one: Callable[[], Result], other: Callable[[], Other], jobs: int = 1
) -> tuple[Result, Other]:
    """What two pieces of different work come to."""
    works: tuple[Callable[[], Any], ...] = (one, other)
    first, second = by_threads(lambda work: work(), works, jobs)
    return first, second


@dataclass(frozen=True)
class _Worker:
    pid: int
    pipe: BinaryIO

    def next(self) -> list[Any]:
        """What came of its next piece; nothing, if it has ended."""
        try:
            return [pickle.load(self.pipe)]
        except (EOFError, pickle.UnpicklingError):
            return []

    def end(self) -> None:
        self.pipe.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _begin(
    crew: list[_Worker], work: Callable[[Piece], Result], shares: Sequence[Sequence[Piece]]
) -> None:
    """Each has a share of the pieces. Where there can be no more processes, nobody has."""
    for pieces in shares:
        source, target = os.pipe()
        with suppress(OSError):
            fcntl(target, F_SETPIPE_SZ, PIPE_BYTES)
        try:
            with warnings.catch_warnings():
                # NumPy has threads; none of them holds anything while this one is here.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
        except OSError:
            os.close(source)
            os.close(target)
            while crew:
                crew.pop().end()
            return
        if not pid:
            for worker in crew:
                worker.pipe.close()
            os.close(source)
            _work(work, pieces, target)
        os.close(target)
        crew.append(_Worker(pid, os.fdopen(source, "rb")))


def _work(work: Callable[[Piece], Result], pieces: Sequence[Piece], target: int) -> None:
    """Ends this process, whatever happens, and quietly."""
    try:
        with os.fdopen(target, "wb") as pipe:
            for piece in pieces:
                pickle.dump(work(piece), pipe, protocol=pickle.HIGHEST_PROTOCOL)
                pipe.flush()
    finally:
        os._exit(0)
