# SPDX-License-Identifier: Apache-2.0
"""The script stage, first step: what bpf/iostrata.bt printed in, its lines as columns out.

It comes from another machine, perhaps cut, perhaps with whatever else was printed there: a line
that is none of the script's is counted, and what it may have said is missing like what was lost.
"""

from __future__ import annotations

import os
import re
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from iostrata.columns import Ints
from iostrata.errors import RecordingError
from iostrata.script.words import (
    BEGUN,
    END,
    FACTS,
    HEAD,
    HEAD_BITS,
    MOUNTS,
    NAME,
    NAME_DIGITS,
    PARTITIONS,
    THREAD,
    VERSION,
    WORDS,
    Word,
)
from iostrata.trace import count, open_regular

MOST_BYTES: Final = 512 << 20
LONGEST: Final = 8192
ONE: Final = "give each a file of its own"
HINT: Final = "give what `bpftrace iostrata.bt > FILE` wrote"
TOTAL: Final = re.compile(r"@n\[(\d{1,5})\]: (\d{1,13})", re.ASCII)
UNSEEN: Final = re.compile(r"@unseen\[(?:\w+:)*sys_enter_(\w+)\]: (\d{1,15})", re.ASCII)
LOST: Final = re.compile(r"Lost (\d{1,15}) events", re.ASCII)
BPFTRACE: Final = re.compile(r"Attach(ing|ed) \d+ probes?(\.\.\.)?", re.ASCII)
WALL: Final = re.compile(r"(\d{1,11})\.(\d{6})", re.ASCII)
MOST_FACT_LINES: Final = 20_000


@dataclass
class Lines:
    """``columns``: of each word, rows of its head and cells, one after the other.

    ``threads``: rows of the head, process, kind, and two names. ``totals``: how many lines each
    CPU had, if it ended by itself. ``unseen``: calls by which files are written, too.
    ``bad``: lines that could not be read; ``first_bad``: the number of one, from 1.
    ``facts``: what the machine said of itself; ``partitions``, ``mounts``: lines of those files;
    ``cut``: which of the two bpftrace printed a part of.
    """

    begin_ns: int = -1
    realtime_ns: int = -1
    end_ns: int = -1
    columns: dict[str, array[int]] = field(default_factory=lambda: defaultdict(_numbers))
    threads: list[tuple[int, int, int, int, int, int, bytes, bytes]] = field(default_factory=list)
    totals: dict[int, int] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    bad: int = 0
    first_bad: int = 0
    facts: dict[str, str] = field(default_factory=dict)
    partitions: list[str] = field(default_factory=list)
    mounts: list[str] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)

    def rows(self, word: str) -> dict[str, Ints]:
        """Its columns by name, int64."""
        names = (*HEAD, *WORDS[word].cells)
        table = np.frombuffer(self.columns.get(word) or _numbers(), np.int64)
        return dict(zip(names, table.reshape(-1, len(names)).T, strict=True))


def _numbers() -> array[int]:
    return array("q")


def read_lines(path: Path) -> Lines:
    """All of a file's lines; RecordingError: it is none of the script's."""
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise RecordingError(
                    f"{path} is longer than {MOST_BYTES >> 20} MiB",
                    "record for less time, or one program: bpftrace iostrata.bt NAME",
                )
            return _read(path, file)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}", HINT) from error


def _read(path: Path, file: BinaryIO) -> Lines:
    found, section = Lines(), ""
    for number, line in enumerate(_lines(file), 1):
        try:
            section = _take(found, line, section)
        except ValueError:
            found.bad += 1
            found.first_bad = found.first_bad or number
    if found.begin_ns < 0:
        raise RecordingError(f"{path} is no output of {NAME}: it has no first line of it", HINT)
    return found


def _lines(file: BinaryIO) -> Iterator[str]:
    """Without their ends, which the last one may lack: then it was cut, and says nothing."""
    while line := file.readline(LONGEST):
        whole = line.endswith(b"\n")
        if not whole and len(line) == LONGEST:
            while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
                pass
            yield "\0"
        elif whole:
            yield line[:-1].decode(errors="surrogateescape")


def _take(found: Lines, line: str, section: str) -> str:
    """Adds what a line says; in which section of facts the next one is. ValueError: nothing."""
    first, _, rest = line.partition(" ")
    if word := WORDS.get(name := first.rpartition(":")[2]):
        found.columns[name].extend(_numbers_of(word, rest.split(" ")))
    elif first == THREAD:
        found.threads.append(_thread(rest.split()))
    elif section and (not line or line[0].isdigit() or line.startswith((" ", "major"))):
        return _fact(found, line, section)
    elif not _said(found, first, rest, line):
        if first in (PARTITIONS, MOUNTS, BEGUN) and not rest:
            return "" if first == BEGUN else first
        raise ValueError(line)
    return section


def _numbers_of(word: Word, cells: list[str]) -> list[int]:
    parsers = word.cells.values()
    if len(cells) != len(HEAD) + len(parsers):
        raise ValueError(cells)
    values = _head(cells)
    values += [parse(cell) for parse, cell in zip(parsers, cells[len(HEAD) :], strict=True)]
    times = dict(zip(word.cells, values[len(HEAD) :], strict=True))
    now = values[HEAD.index("time_ns")]
    if any(not 0 < times[name] <= now for name in word.earlier):
        raise ValueError(cells)
    if any(times[name] > now for name in word.perhaps):
        raise ValueError(cells)
    return values


def _head(cells: list[str]) -> list[int]:
    return [count(cell, bits) for cell, bits in zip(cells, HEAD_BITS, strict=False)]


def _thread(cells: list[str]) -> tuple[int, int, int, int, int, int, bytes, bytes]:
    head, names = cells[: len(HEAD) + 2], "".join(cells[len(HEAD) + 2 :])
    if len(head) != len(HEAD) + 2 or len(names) != 2 * NAME_DIGITS:
        raise ValueError(cells)
    number, cpu, tid, time = _head(head)
    both = bytes.fromhex(names)
    process, kind = count(head[-2], 31), count(head[-1], 8)
    return number, cpu, tid, time, process, kind, both[:16], both[16:]


def _fact(found: Lines, line: str, section: str) -> str:
    told = found.partitions if section == PARTITIONS else found.mounts
    # What is longer than bpftrace prints of a file ends in the middle of a line.
    ends = next((end for end in (MOUNTS, BEGUN) if line.endswith(end)), "")
    if ends:
        found.cut.add(section)
        return "" if ends == BEGUN else ends
    if len(told) >= MOST_FACT_LINES:
        raise ValueError(line)
    told.append(line)
    return section


def _said(found: Lines, first: str, rest: str, line: str) -> bool:
    """What is told once, or by bpftrace itself; false: it is nothing of the kind."""
    if not line or BPFTRACE.fullmatch(line):
        return True
    if first == NAME:
        _begin(found, rest)
    elif first in FACTS:
        found.facts[first] = rest[:256]
    elif first == END:
        found.end_ns = count(rest, 60)
    elif match := TOTAL.fullmatch(line):
        found.totals[count(match[1], 16)] = count(match[2], 40)
    elif match := UNSEEN.fullmatch(line):
        found.unseen[match[1]] = int(match[2])
    elif match := LOST.fullmatch(line):
        found.lost += int(match[1])
    else:
        return False
    return True


def _begin(found: Lines, rest: str) -> None:
    version, nsecs, wall = rest.split(" ")
    if found.begin_ns >= 0:
        raise RecordingError(f"more than one output of {NAME} is in the file", ONE)
    if count(version, 31) > VERSION:
        raise RecordingError(
            f"{NAME} was of version {version}; this iostrata reads up to {VERSION}",
            "upgrade iostrata, or use the script that came with this one",
        )
    told = WALL.fullmatch(wall)
    if not told:
        raise ValueError(rest)
    found.begin_ns = count(nsecs, 60)
    found.realtime_ns = int(told[1]) * 1_000_000_000 + int(told[2]) * 1000
