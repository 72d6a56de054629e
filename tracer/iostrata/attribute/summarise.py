# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: a Breakdown in, the Summary that every report prints out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from iostrata import units
from iostrata.attribute.causes import causes, operators
from iostrata.attribute.figures import figures, weighed
from iostrata.attribute.rhythm import rhythm
from iostrata.attribute.selection import process_name
from iostrata.attribute.tail import tail
from iostrata.attribute.who import own_of, parts_of
from iostrata.cgroups import container_of
from iostrata.columns import Ints, coded, distinct, rows_of
from iostrata.crew import both
from iostrata.errors import UsageError
from iostrata.model import (
    WRITTEN,
    Breakdown,
    Figures,
    Row,
    SegmentRow,
    Served,
    Summary,
    Table,
    Writes,
)

GROUPINGS = (
    "method", "size", "process", "file_system", "device", "machine", "file", "directory", "thread",
    "comm", "cgroup", "container", "vm", "vcpu_placement", "served",
)  # fmt: skip
# Of which the summary says how many writes have each name: there are not too many of these.
COMPOSED = GROUPINGS[:6]


def directory_of(path: str) -> str:
    """``/mnt/wal`` of ``/mnt/wal/1``; what is no path stays."""
    above, slash, _ = path.rpartition("/")
    return above or slash or path


# Groupings by what another column's names have in common.
DERIVED: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "process": ("process", process_name),
    "directory": ("file", directory_of),
    "container": ("cgroup", lambda path: container_of(path) or "none"),
    "vm": ("vm", lambda name: name or "none"),
}


def summarise(breakdown: Breakdown, by: str = "", jobs: int = 1) -> Summary:
    """Figures of all writes and of each group; ``by`` is one of ``GROUPINGS``.

    Without it by machine if several have a workload, else by method. Groups come in order of
    their part of all time. ``jobs``: by so many threads. Errors: UsageError.
    """
    by = by or ("machine" if len(breakdown.writes.machines) > 1 else "method")
    codes, names = grouping(breakdown.writes, by)
    overall, (onset, period) = both(
        lambda: tabulate(breakdown, "all", np.arange(len(breakdown.writes))),
        lambda: rhythm(breakdown),
        jobs,
    )
    return Summary(
        overall=overall,
        grouped_by=by,
        groups=_groups(breakdown, overall, codes, names),
        left_out=breakdown.left_out,
        quality=breakdown.quality,
        composition={name: _composition(breakdown.writes, name) for name in COMPOSED},
        onset=onset,
        period=period,
        op=breakdown.op,
        served=served_of(breakdown.writes, np.arange(len(breakdown.writes))),
    )


def regrouped(summary: Summary, breakdown: Breakdown, by: str) -> Summary:
    """What ``summarise`` says by something else of the same writes. Errors: UsageError."""
    groups = _groups(breakdown, summary.overall, *grouping(breakdown.writes, by))
    return replace(summary, grouped_by=by, groups=groups)


def _groups(
    breakdown: Breakdown, overall: Table, codes: Ints, names: Sequence[str]
) -> tuple[Table, ...]:
    present = rows_of(codes)
    if len(present) == 1:
        # A group that is all there is has the same figures.
        return tuple(replace(overall, name=names[code]) for code in present)
    return tuple(tabulate(breakdown, names[code], rows) for code, rows in present.items())


def served_of(writes: Writes, rows: Ints) -> tuple[Served, ...]:
    """From where some reads (row indices) were, most first; of writes nothing."""
    if "served" not in writes.codes:
        return ()
    reads = np.array([name != WRITTEN for name in writes.names["served"]], np.bool_)
    rows = rows[reads[writes.codes["served"][rows]]]
    codes, latency, found = writes.codes["served"][rows], writes.latency_ns[rows], []
    for code in distinct(codes).tolist():
        took = latency[codes == code]
        share = len(took) / len(codes)
        found.append(Served(writes.names["served"][code], len(took), share, float(took.mean())))
    return tuple(sorted(found, key=lambda one: -one.count))


def tabulate(breakdown: Breakdown, name: str, writes: Ints) -> Table:
    """The table of some writes (row indices). Layers that none of them was in have no row."""
    total, time_ns = breakdown.writes.latency_ns, breakdown.time_ns
    residual_ns = breakdown.residual_ns
    if len(writes) < len(total):
        total, time_ns, residual_ns = total[writes], time_ns[:, writes], residual_ns[writes]
    mean = float(total.mean()) if len(total) else 0.0
    who = parts_of(breakdown, writes, mean)
    rows = tuple(
        Row(layer, figures(times, mean), who.get(number, ()))
        for number, (layer, times) in enumerate(zip(breakdown.layers, time_ns, strict=True))
        if times.any()
    )
    slow = tail(breakdown, writes)
    return Table(
        name=name,
        count=len(writes),
        total=figures(total, mean),
        rows=rows,
        residual=figures(residual_ns, mean),
        segments=_segments(breakdown, rows, time_ns, lambda times: figures(times, mean)),
        tail=slow,
        causes=causes(rows, slow, own_of(breakdown.writes, writes)),
        operators=operators(breakdown, writes, mean),
        share=float(total.sum()) / max(float(breakdown.writes.latency_ns.sum()), 1.0),
    )


def tabulate_weighed(breakdown: Breakdown, name: str, weights: NDArray[np.float64]) -> Table:
    """The table of all writes, each of which was seen in place of so many: rows and totals."""
    latency = breakdown.writes.latency_ns
    mean = float(latency @ weights) / float(weights.sum())

    def told(times: NDArray[np.int64]) -> Figures:
        return weighed(times, weights, mean)

    rows = tuple(
        Row(layer, told(times))
        for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True)
        if times.any()
    )
    return Table(
        name=name,
        count=len(latency),
        total=told(latency),
        rows=rows,
        residual=told(breakdown.residual_ns),
        segments=_segments(breakdown, rows, breakdown.time_ns, told),
    )


def _segments(
    breakdown: Breakdown,
    rows: Sequence[Row],
    time_ns: NDArray[np.int64],
    told: Callable[[NDArray[np.int64]], Figures],
) -> tuple[SegmentRow, ...]:
    """``rows``: of the layers that have any of ``time_ns``, of which there is a row a layer."""
    figures_of = {row.layer: row.figures for row in rows}
    layers: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, layer in enumerate(breakdown.layers):
        if layer in figures_of:
            layers[layer.segment, layer.machine].append(number)
    return tuple(
        SegmentRow(
            *place,
            # A row that is alone has the same figures.
            figures_of[breakdown.layers[numbers[0]]]
            if len(numbers) == 1
            else told(_together(time_ns, numbers)),
        )
        for place, numbers in layers.items()
    )


def _together(time_ns: NDArray[np.int64], numbers: Sequence[int]) -> Ints:
    """Of some layers, row by row: none is copied."""
    first, second, *others = numbers
    whole: Ints = time_ns[first] + time_ns[second]
    for number in others:
        whole += time_ns[number]
    return whole


def grouping(writes: Writes, by: str) -> tuple[Ints, list[str]]:
    """A code for each write, and the names of the codes, those with most of the time first.

    ``by`` is one of ``GROUPINGS``. Processes of one name are one group; one that is alone
    has its number. Errors: UsageError.
    """
    codes, names = named(writes, by)
    if by == "process":
        names = _with_numbers(writes, names)
    if len(names) == 1:
        return codes, names
    time_ns = np.bincount(codes, weights=writes.latency_ns, minlength=len(names))
    order = sorted(range(len(names)), key=lambda code: (-time_ns[code], names[code]))
    position = np.empty(len(names), np.int64)
    position[order] = np.arange(len(names))
    return position[codes], [names[code] for code in order]


def _with_numbers(writes: Writes, names: Sequence[str]) -> list[str]:
    """Names of processes, of each that is the only one of its name with its number."""
    processes: dict[str, list[str]] = defaultdict(list)
    for code in distinct(writes.codes["process"]).tolist():
        told = writes.names["process"][code]
        processes[process_name(told)].append(told)
    return [processes[name][0] if len(processes[name]) == 1 else name for name in names]


def named(writes: Writes, by: str) -> tuple[Ints, list[str]]:
    """As ``grouping``, by names that another recording may have, too; in any order."""
    if by not in GROUPINGS:
        raise UsageError(f"cannot group by {by!r}", f"group by one of {', '.join(GROUPINGS)}")
    if by == "size":
        sizes, codes = coded(writes.size_bytes)
        return codes.astype(np.int64), [units.size(size) for size in sizes]
    if by == "served" and by not in writes.codes:
        hint = "--by served is for --op read and --op direct"
        raise UsageError("writes are not served from anywhere", hint)
    column, name_of = DERIVED.get(by, (by, str))
    texts = [name_of(text) for text in writes.names[column]]
    names = list(dict.fromkeys(texts))
    number = {name: place for place, name in enumerate(names)}
    place = np.array([number[text] for text in texts], np.int64)
    return place[writes.codes[column]], names


def _composition(writes: Writes, by: str) -> dict[str, int]:
    codes, names = grouping(writes, by)
    if len(names) == 1:
        return {names[0]: len(codes)} if len(codes) else {}
    counts = np.bincount(codes, minlength=len(names))
    order = np.argsort(-counts, kind="stable")
    # Of a selection's writes, none may have a name that others of the recording have.
    return {names[code]: int(counts[code]) for code in order.tolist() if counts[code]}
