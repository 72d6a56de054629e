# SPDX-License-Identifier: Apache-2.0
"""Seeds in, what became of each out: a process reads some hundreds, and may end at any of them."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz.lawful import check
from tests.fuzz.mutate import Files, mutated, write
from tests.fuzz.parts import PARTS, tried

LIMIT_S: Final = 10
MOST_BYTES: Final = 1 << 30
BATCH: Final = 200
RECORDING: Final = "recording"
# Of a hundred inputs, what is left is whole recordings.
NAMES: Final = (*PARTS, RECORDING)
WEIGHTS: Final = (*(share for _, share in PARTS.values()), 100 - sum(s for _, s in PARTS.values()))


@dataclass(frozen=True)
class Result:
    """``word``: taken, analysed, refused or WRONG. ``told``: a traceback, or empty."""

    seed: int
    part: str
    word: str
    told: str

    @property
    def kind(self) -> str:
        """What went wrong, and where: the same for all that are one defect."""
        lines = self.told.strip().splitlines() or [""]
        where = [line for line in lines if line.startswith("  File")][-1:]
        return f"{self.part} {lines[-1][:80]} {where}"


@dataclass
class _Batch:
    """A process, and the seeds that it has not told of yet."""

    process: int
    seeds: range
    unread: bytes = b""


def part_of(seed: int, only: str = "") -> str:
    return only or Random(~seed).choices(NAMES, WEIGHTS)[0]


def run(
    seeds: range, found: Sequence[Files], place: Path, only: str, jobs: int, seconds: float
) -> Iterator[Result]:
    """``place``: a directory for what is read. ``only``: the one part that is tried, or empty."""
    until = time.monotonic() + seconds
    running: dict[int, _Batch] = {}
    again: list[range] = []
    while True:
        while len(running) < jobs and (again or seeds) and time.monotonic() < until:
            if not again:
                again, seeds = [seeds[:BATCH]], seeds[BATCH:]
            begun = again.pop()
            reader, process = _begun(begun, found, place, only)
            running[reader] = _Batch(process, begun)
        if not running:
            return
        for reader in select.select(list(running), [], [])[0]:
            batch = running[reader]
            if said := os.read(reader, 1 << 16):
                yield from _results(batch, said)
                continue
            os.close(reader)
            del running[reader]
            _, status = os.waitpid(batch.process, 0)
            if batch.seeds:
                yield _ended(batch.seeds[0], status, only)
                if batch.seeds[1:]:
                    again.append(batch.seeds[1:])


def _results(batch: _Batch, said: bytes) -> Iterator[Result]:
    *lines, batch.unread = (batch.unread + said).split(b"\n")
    for line in lines:
        yield Result(*json.loads(line))
        batch.seeds = batch.seeds[1:]


def _ended(seed: int, status: int, only: str) -> Result:
    how = f"status {status}"
    if os.WIFSIGNALED(status):
        how = f"ended by {signal.Signals(os.WTERMSIG(status)).name}, after {LIMIT_S} s at most"
    return Result(seed, part_of(seed, only), "WRONG", how)


def _begun(seeds: Sequence[int], found: Sequence[Files], place: Path, only: str) -> tuple[int, int]:
    """What a process that was forked for them tells, a line each; and the process."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return reader, pid
    os.close(reader)
    _bounded()
    with tempfile.TemporaryDirectory(dir=place) as own:
        for seed in seeds:
            # Of its own time: a busy machine makes nothing hang. Who waits for ever uses none.
            signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
            signal.alarm(20 * LIMIT_S)
            part, told = part_of(seed, only), one(seed, found, Path(own), only)
            word, _, more = told.partition(" ")
            line = json.dumps([seed, part, word, more[-60_000:]])
            os.write(writer, line.encode() + b"\n")
    os._exit(0)


def one(seed: int, found: Sequence[Files], place: Path, only: str = "") -> str:
    """What became of it: a word, and a traceback behind ``WRONG``."""
    part = part_of(seed, only)
    try:
        with tempfile.TemporaryDirectory(dir=place) as own:
            if part != RECORDING:
                return tried(part, found, Random(seed), Path(own))
            files = mutated(found[seed % len(found)], Random(seed))
            return check(write(files, Path(own, RECORDING)), Path(own), seed // 8)
    except BaseException:
        return "WRONG " + traceback.format_exc()


def _bounded() -> None:
    used = re.search(r"VmData:\s*(\d+) kB", Path("/proc/self/status").read_text())
    most = int(used[1]) * 1024 + MOST_BYTES if used else MOST_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    # The timer's signal would be an error that a reader could catch.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
