# SPDX-License-Identifier: Apache-2.0
"""Stage trace: the events that tell of threads' sleeps in, without those that cannot be out.

A thread runs again before it sleeps again, and is let go while it sleeps: whoever follows a sleep
to what ended it rests on that. Each time of an event may be right by itself, and still tell of a
thread that slept while it ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from iostrata import native
from iostrata.columns import Ints, changes, order_of
from iostrata.trace.points import Points
from iostrata.trace.stream import UNKNOWN_CPU, Gap

RESUMED: Final = "sched_resume"
WOKEN: Final = "sched_woken"
# Thread, since when it slept, when it was let go (0: not seen), when it ran again.
TOLD: Final[Mapping[str, tuple[str, ...]]] = {
    RESUMED: ("subject_tid", "off_ns", "wake_ns", "time_ns"),
    WOKEN: ("subject_tid", "wake_ns", "wake_ns", "on_ns"),
}
NOTHING: Final = np.zeros(0, np.int64)

Sleeps = tuple[Ints, ...]
"""Columns as in ``TOLD``, and the event's place among its point's; inverted, where that is
``WOKEN``."""
NO_SLEEPS: Final[Sleeps] = (NOTHING,) * 5
Wrong = tuple[Ints, Ints, Ints]
"""The events of sleeps that cannot be, as above; from when to when it is not known what was."""


def without_impossible(points: Mapping[str, Points]) -> tuple[dict[str, Points], list[Gap]]:
    """The points without events that tell of a sleep which cannot be; and when each of them was."""
    if _all_possible(points):
        return dict(points), []
    found = [(NOTHING, NOTHING, NOTHING), *_impossible(points)]
    event, begin, end = (np.concatenate(columns) for columns in zip(*found, strict=True))
    kept = dict(points)
    for name, events in ((RESUMED, event[event >= 0]), (WOKEN, ~event[event < 0])):
        if len(events):
            kept[name] = points[name].without(events)
    times = zip(begin.tolist(), end.tolist(), strict=True)
    return kept, [Gap(since, until, UNKNOWN_CPU, 1) for since, until in times]


def damage_of(points: Mapping[str, Points], kept: Mapping[str, Points]) -> tuple[str, ...]:
    """A line for each point of which some were left out."""
    counts = {name: len(points[name]) - len(kept[name]) for name in TOLD}
    return tuple(
        f"{name}: {count} event{' tells' if count == 1 else 's tell'} of a sleep that cannot be"
        for name, count in counts.items()
        if count
    )


def slept_of(points: Mapping[str, int], dtypes: Mapping[str, np.dtype[np.void]]) -> native.Slept:
    """Where the events that tell of all but a few sleeps tell who slept, and since when."""
    fields: Mapping[str, Any] = dtypes[RESUMED].fields or {} if RESUMED in points else {}
    told = [fields.get(field, (None, 0))[:2] for field in TOLD[RESUMED][:3]]
    if [kind for kind, _ in told] != [np.uint32, np.uint64, np.uint64]:
        return native.NOBODY_SLEPT
    return native.Slept(points[RESUMED], *(offset for _, offset in told))


def _all_possible(points: Mapping[str, Points]) -> bool:
    """As C tells, if it does, of what was noted when the streams were looked through."""
    resumed = points[RESUMED].slept()
    if native.LIBRARY is None or resumed is None:
        return False
    tid, off_ns, _, on_ns, _ = _woken(points)
    return native.apart(resumed, points[RESUMED].time_ns, (tid, off_ns, on_ns))


def _impossible(points: Mapping[str, Points]) -> Iterator[Wrong]:
    """Of two sleeps of a thread that overlap it is the one that ended later: which of both is wrong
    nobody knows, and what was since the first began."""
    last = NO_SLEEPS
    for some in _in_turn(points):
        sleeps = [np.concatenate(columns) for columns in zip(last, some, strict=True)]
        order = order_of(sleeps[0])
        tid, off, wake, on, event = (column[order] for column in sleeps)
        again = np.append(False, ~changes(tid)[1:])[: len(tid)]
        wrong = (off <= 0) | (off > on) | ((wake != 0) & ((wake < off) | (wake > on)))
        wrong[1:] |= again[1:] & (off[1:] < on[:-1])
        # What stands in front was judged before.
        wrong &= order >= len(last[0])
        if wrong.any():
            begin = np.where(off > 0, np.minimum(off, on), on)
            begin[1:] = np.where(again[1:], off[:-1], begin[1:])
            yield event[wrong], begin[wrong], np.maximum(off, on)[wrong]
        latest = np.append(~again[1:], True)[: len(tid)]
        last = tid[latest], off[latest], wake[latest], on[latest], event[latest]


def _in_turn(points: Mapping[str, Points]) -> Iterator[Sleeps]:
    """All sleeps, in order of when they ended, some at a time."""
    *told, event = _woken(points)
    woken: Sleeps = (*told, ~event)
    for resumed in _told(points, RESUMED):
        count = int(woken[3].searchsorted(resumed[3][-1]))
        now, woken = zip(*((column[:count], column[count:]) for column in woken), strict=True)
        both = [np.append(*pair) for pair in zip(resumed, now, strict=True)] if count else []
        yield _ordered(both) if both else resumed
    yield woken


def _woken(points: Mapping[str, Points]) -> Sleeps:
    parts = [NO_SLEEPS, *_told(points, WOKEN)]
    return _ordered([np.concatenate(columns) for columns in zip(*parts, strict=True)])


def _ordered(sleeps: list[Ints]) -> Sleeps:
    order = order_of(sleeps[3])
    return tuple(column[order] for column in sleeps)


def _told(points: Mapping[str, Points], name: str) -> Iterator[Sleeps]:
    """The sleeps of a point; none, if it has other fields."""
    told, first = TOLD[name], 0
    if set(told) <= {"time_ns", *points[name].fields}:
        for some in points[name].pieces(*sorted(set(told) - {"time_ns"})):
            count = len(some["time_ns"])
            yield *(some[field] for field in told), np.arange(first, first + count)
            first += count
