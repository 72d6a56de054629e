# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: Breakdowns in, a Breakdown of some of their writes, or of all, out.

Which writes: ``Wanted`` says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from iostrata import units
from iostrata.columns import Ints
from iostrata.errors import NothingToAnalyse, UsageError
from iostrata.foreign import shown
from iostrata.layers import ROWS
from iostrata.model import Behind, Breakdown, Layer, Op, Selection, Writes

PLACES: Final = {row.name: number for number, row in enumerate(ROWS)}

DAY_NS: Final = 86_400 * 10**9

LayerKey = tuple[str, str]


@dataclass(frozen=True)
class WallTime:
    """A time by the machines' clocks. ``realtime_ns``: since 1970; ``of_day``: only its time of
    day counts. ``text``: as it was asked for.
    """

    realtime_ns: int
    of_day: bool
    text: str

    def within(self, begin_ns: Ints) -> int:
        """In ns since 1970. A time of day is the first one that some write comes after, from the
        day on at which the first of these began.
        """
        if not self.of_day:
            return self.realtime_ns
        first, last = int(begin_ns.min()), int(begin_ns.max())
        of_first = first - first % DAY_NS + self.realtime_ns
        return of_first + DAY_NS if of_first < first and of_first + DAY_NS <= last else of_first


@dataclass(frozen=True)
class Wanted:
    """Which writes: those for which all of it holds; what is empty or None holds for each.

    ``since_ns`` up to ``until_ns``: when they began, from the recording's first write on.
    ``processes``: by name, number, or both as they are shown. ``files``: paths, or names without a
    ``/``, or patterns of these; or inodes, perhaps with the device's name: ``12``, ``vda:12``.
    Names are as they are, or as they are shown. ``slower_ns``: a latency above this.
    """

    since_ns: int | WallTime | None = None
    until_ns: int | WallTime | None = None
    processes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    slower_ns: int | None = None

    def rows(self, writes: Writes, op: Op = Op.SYNC) -> Ints:
        """Indices of these writes. ``op``: what they are. Errors: NothingToAnalyse."""
        kept = np.ones(len(writes), np.bool_)
        if self.since_ns is not None:
            kept &= _since(writes, self.since_ns)
        if self.until_ns is not None:
            kept &= ~_since(writes, self.until_ns)
        if self.processes:
            kept &= _are_of(writes, self.processes)
        if self.files:
            kept &= _are_to(writes, self.files)
        if self.slower_ns is not None:
            kept &= writes.latency_ns > self.slower_ns
        if not kept.any():
            raise NothingToAnalyse(
                f"none of the {len(writes)} {op.word}s is {', '.join(self.told())}",
                self._hint(op),
            )
        return np.flatnonzero(kept)

    def _hint(self, op: Op) -> str:
        """How to see what there is of that by which the writes were chosen."""
        groups = [*["file"] * bool(self.files), *["process"] * bool(self.processes)]
        which = "" if op is Op.SYNC else f" --op {op}"
        by = [f"iostrata replay DIR{which} --by {group}" for group in groups]
        return f"see which there are: {', '.join(by or [f'iostrata timeline DIR{which}'])}"

    def told(self) -> tuple[str, ...]:
        """In words, one for each thing that is wanted."""
        words = []
        if self.since_ns is not None:
            words.append(f"from {_when(self.since_ns)}")
        if self.until_ns is not None:
            words.append(f"before {_when(self.until_ns)}")
        if self.processes:
            words.append(f"of process {_or(self.processes)}")
        if self.files:
            words.append(f"to file {_or(self.files)}")
        if self.slower_ns is not None:
            words.append(f"slower than {units.duration(self.slower_ns)}")
        return tuple(words)


ALL: Final = Wanted()
COMM_BYTES: Final = 15


def chosen(breakdown: Breakdown, wanted: Wanted) -> Breakdown:
    """The wanted writes; ``quality`` stays the recording's, and says what was chosen.

    Errors: NothingToAnalyse.
    """
    told = wanted.told()
    if not told:
        return breakdown
    rows = wanted.rows(breakdown.writes, breakdown.op)
    selection = Selection(len(breakdown.writes), told)
    return replace(select(breakdown, rows), quality=replace(breakdown.quality, selection=selection))


def process_name(text: str) -> str:
    """Without the number: ``fio`` of ``fio (7405)``."""
    return text.rpartition(" (")[0] or text


def _are_of(writes: Writes, processes: tuple[str, ...]) -> NDArray[np.bool_]:
    # The kernel keeps no more of a name.
    cut = (shown(text.encode(errors="surrogateescape")[:COMM_BYTES]) for text in processes)
    wanted = {*map(shown, processes), *cut}
    known = writes.names["process"]
    names = np.array([not wanted.isdisjoint((process_name(one), one)) for one in known])
    numbers = [int(text) for text in processes if text.isdecimal()]
    found: NDArray[np.bool_] = names[writes.codes["process"]] | np.isin(writes.tgid, numbers)
    return found


def _are_to(writes: Writes, files: tuple[str, ...]) -> NDArray[np.bool_]:
    found = np.zeros(len(writes), np.bool_)
    for text in files:
        device, _, inode = text.rpartition(":")
        if inode.isdecimal():
            same = writes.inode == int(inode)
            if device:
                on = np.array([name == device for name in writes.names["device"]])
                same &= on[writes.codes["device"]]
            found |= same
        paths = writes.names["file"]
        named = np.array([_is_named(path, shown(text)) for path in paths], np.bool_)
        found |= named[writes.codes["file"]]
    return found


def _is_named(path: str, pattern: str) -> bool:
    name = path if "/" in pattern else path.rpartition("/")[2]
    return name == pattern or fnmatchcase(name, pattern)


def _since(writes: Writes, moment: int | WallTime) -> NDArray[np.bool_]:
    """Which of them began then or later. Errors: UsageError."""
    if not isinstance(moment, WallTime):
        return writes.passed_ns >= moment
    if writes.realtime_ns is None:
        raise UsageError(
            f"{moment.text}: this recording has no samples of the machine's clock",
            "give how long after the first write: 30s",
        )
    return writes.realtime_ns >= moment.within(writes.realtime_ns)


def _or(names: Iterable[str]) -> str:
    return " or ".join(map(shown, names))


def _when(moment: int | WallTime) -> str:
    return moment.text if isinstance(moment, WallTime) else units.duration(moment)


def select(breakdown: Breakdown, rows: Ints) -> Breakdown:
    """Some of the writes (row indices), with everything that was said of the whole."""
    writes = breakdown.writes
    columns: dict[str, Any] = {name: getattr(writes, name)[rows] for name in _columns([writes])}
    codes = {name: column[rows] for name, column in writes.codes.items()}
    return replace(
        breakdown,
        writes=replace(writes, codes=codes, first_ns=writes.firsts_ns, **columns),
        time_ns=breakdown.time_ns[:, rows],
        residual_ns=breakdown.residual_ns[rows],
        behind=_behind(breakdown.behind, rows),
    )


def _behind(behind: Behind, rows: Ints) -> Behind:
    """What is said of some writes, by their new numbers."""
    order = np.argsort(rows, kind="stable")
    place = np.searchsorted(rows, behind.write, sorter=order)
    place = order[np.minimum(place, max(len(rows) - 1, 0))] if len(rows) else place
    kept = np.flatnonzero(rows[place] == behind.write) if len(rows) else np.zeros(0, np.int64)
    return replace(
        behind,
        write=place[kept].astype(np.int32),
        layer=behind.layer[kept],
        who=behind.who[kept],
        time_ns=behind.time_ns[kept],
    )


def joined(breakdowns: Sequence[Breakdown]) -> Breakdown:
    """The writes of all, in their order; what was said of the whole is the last one's.

    Who was behind their waits is not told.
    """
    layers = layers_of(one.layers for one in breakdowns)
    return replace(
        breakdowns[-1],
        writes=joined_writes([one.writes for one in breakdowns]),
        layers=tuple(layers.values()),
        time_ns=np.hstack([times_of(one, layers) for one in breakdowns]),
        residual_ns=np.concatenate([one.residual_ns for one in breakdowns]),
        behind=Behind(),
    )


def joined_writes(parts: Sequence[Writes]) -> Writes:
    """All of them in their order, with one set of names."""
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(writes, name) for writes in parts])
        for name in _columns(parts)
    }
    columns = {"realtime_ns": None, "first_ns": None} | columns
    names: dict[str, tuple[str, ...]] = {}
    codes: dict[str, NDArray[np.int32]] = {}
    for column in parts[-1].codes:
        names[column], codes[column] = _recoded(parts, column)
    return replace(parts[-1], codes=codes, names=names, **columns)


def by_segment(breakdown: Breakdown) -> Breakdown:
    """The same writes, with one layer for all layers of a segment of a machine."""
    places = [(layer.segment, layer.machine) for layer in breakdown.layers]
    segments = list(dict.fromkeys(places))
    times = np.zeros((len(segments), len(breakdown.writes)), np.int64)
    for place, own in zip(places, breakdown.time_ns, strict=True):
        times[segments.index(place)] += own
    layers = tuple(
        Layer(f"{machine}/{segment}", segment, machine, "") for segment, machine in segments
    )
    return replace(breakdown, layers=layers, time_ns=times, behind=Behind())


def layers_of(stacks: Iterable[Sequence[Layer]]) -> dict[LayerKey, Layer]:
    """The layers of any of them, each behind those that it is behind in one of them."""
    chains = [{(one.machine, one.name): one for one in layers} for layers in stacks]
    left = {key: layer for chain in chains for key, layer in chain.items()}
    machines = list(dict.fromkeys(machine for machine, _ in left))
    before: dict[LayerKey, set[LayerKey]] = {key: set() for key in left}
    for chain in chains:
        for upper, lower in pairwise(chain):
            before[lower].add(upper)

    def place(key: LayerKey) -> tuple[int, int]:
        return machines.index(key[0]), PLACES.get(left[key].row, len(PLACES))

    found: dict[LayerKey, Layer] = {}
    while left:
        # Two recordings of different machines may contradict each other: then any order will do.
        ready = [key for key in left if not before[key] & left.keys()] or list(left)
        first = min(ready, key=place)
        found[first] = left.pop(first)
    return found


def times_of(breakdown: Breakdown, layers: Mapping[LayerKey, Layer]) -> NDArray[np.int64]:
    """``time_ns`` with a row for each of ``layers``; 0 where it had none."""
    times = np.zeros((len(layers), len(breakdown.writes)), np.int64)
    places = {key: number for number, key in enumerate(layers)}
    for layer, own in zip(breakdown.layers, breakdown.time_ns, strict=True):
        times[places[layer.machine, layer.name]] = own
    return times


def _columns(parts: Sequence[Writes]) -> tuple[str, ...]:
    """The columns of numbers that all of them have."""
    return tuple(
        field.name
        for field in fields(Writes)
        if field.name not in ("codes", "names", "first_ns")
        and all(getattr(writes, field.name) is not None for writes in parts)
    )


def _recoded(parts: Sequence[Writes], column: str) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """One set of names for all parts, and the parts' codes into it."""
    names = tuple(dict.fromkeys(name for writes in parts for name in writes.names[column]))
    place = {name: number for number, name in enumerate(names)}
    codes = [
        np.array([place[name] for name in writes.names[column]], np.int32)[writes.codes[column]]
        for writes in parts
    ]
    return names, np.concatenate(codes)
