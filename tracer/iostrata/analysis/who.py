# SPDX-License-Identifier: Apache-2.0
"""Lifted spans in, the same told apart by who had what they waited for out.

A part of a span of which it is known who is behind it gets a level of its own, just
above the span's: whatever adds up or shows who holds the time does so for who is behind
it, too, and the parts are the row to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.analysis.path import Path
from iostrata.columns import Ints, coded, distinct, joined, order_of, ranges
from iostrata.hops import View
from iostrata.layers import ROWS, SOURCE, STACK
from iostrata.model import UNKNOWN, Crowd, NotObserved, Who
from iostrata.stitch import Behind, Kinds, Parts, Spans, told
from iostrata.trace import Trace

TOLD: Final = frozenset(row.name for row in ROWS if row.contended or row.reasoned)
OF_EVENTS: Final = np.array(SOURCE, np.int16)
JOURNALS: Final = tuple(row.name for row in ROWS if row.name.startswith("journal."))


class Names:
    """Who is behind anything, by number; 0 is what is not known."""

    def __init__(self) -> None:
        self._numbers: dict[Who | Crowd, int] = {UNKNOWN: 0}
        self._names: list[Who | Crowd] = [UNKNOWN]

    @property
    def every(self) -> tuple[Who | Crowd, ...]:
        """By number."""
        return tuple(self._names)

    def distinct(self) -> tuple[tuple[Who, ...], Ints]:
        """Everyone once, and the place there of each number's: a crowd has no name of its own."""
        found = [self.whom(number) for number in range(len(self._names))]
        place = {who: place for place, who in enumerate(dict.fromkeys(found))}
        return tuple(place), np.array([place[who] for who in found], np.int64)

    def whom(self, number: int) -> Who:
        """Who it is, of a crowd the one who has the most."""
        who = self._names[number]
        return who if isinstance(who, Who) else who.members[0]

    def numbers(self, names: Iterable[Who | Crowd]) -> Ints:
        return np.array([self._number(who) for who in names], np.int64)

    def _number(self, who: Who | Crowd) -> int:
        if who not in self._numbers:
            self._numbers[who] = len(self._names)
            self._names.append(who)
        return self._numbers[who]

    def shared(self, level: Ints, who: Ints, time_ns: Ints) -> tuple[Ints, Ints, Ints]:
        """Some times as those of each who is behind them: theirs together, to the nanosecond.

        ``level``: of each time, in order; ``who``: of each level. Which time it is of, whose, and
        how much, which is not 0: level by level, of a crowd's member by member.
        """
        crowds = np.array([isinstance(name, Crowd) for name in self._names])[who]
        row = np.flatnonzero(~crowds[level])
        if len(row) == len(level):
            return row, who[level], time_ns
        parts = [(row, who[level[row]], time_ns[row])]
        for one in distinct(level[crowds[level]]).tolist():
            row = np.flatnonzero(level == one)
            parts += [(row, *part) for part in self._divided(who[one], time_ns[row])]
        row, person, part_ns = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = order_of(level[row])
        order = order[part_ns[order] > 0]
        return row[order], person[order], part_ns[order]

    def _divided(self, number: int, time_ns: Ints) -> Iterator[tuple[Ints, Ints]]:
        crowd, done = self._names[number], 0
        assert isinstance(crowd, Crowd)
        for member, percent in zip(crowd.members, crowd.percent, strict=True):
            before, done = done, done + percent
            person = np.full(len(time_ns), self._number(member))
            yield person, time_ns * done // 100 - time_ns * before // 100


@dataclass(frozen=True, eq=False)
class Told:
    """``spans``: whose ranks are rows of ``ranks`` and ``who`` (numbers of ``Names``)."""

    spans: Spans
    ranks: Ints
    who: Ints


def told_in(path: Path) -> NDArray[np.bool_]:
    """Of each place of the path's layers, whether it is told who, or what, is behind it."""
    telling = {member.trace.machine for member in path.members if told(member.trace)}
    return np.array(
        [
            layer is not None and layer.machine in telling and layer.row in TOLD
            for layer in path.layers
        ]
    )


def whose_is_untold(
    trace: Trace, shares: Mapping[tuple[str, str], float]
) -> Iterator[tuple[NotObserved, float]]:
    """What nothing tells of although it was asked for (--who), and its share of the time."""
    if len(trace.points["sched_ran"]) and len(trace.points["xlog_iclog_sync"]):
        share = sum(shares.get((trace.machine, row), 0) for row in JOURNALS)
        yield NotObserved("who is in XFS's log", "no point tells", "unknown"), share


def told_apart(spans: Spans, views: Sequence[View], names: Names) -> Told:
    """Some of the spans that were lifted; ``views``: what they are of.

    Ranks keep their order, and who is known is above who is not.
    """
    telling = [(view, view.behind) for view in views if view.behind]
    if not telling:
        # Nobody is told of: all ranks are their own levels.
        ranks = np.arange(int(spans.rank.max(initial=-1)) + 1)
        return Told(spans, ranks, np.zeros(len(ranks), np.int64))
    parts = [_parts(spans, view, behind, names) for view, behind in telling]
    people, person = coded(np.concatenate([[0], *(who for _, who in parts)]))
    # Of what is not told, nobody, who is the first of them.
    level = np.concatenate([one.rank for one in (spans, *(some for some, _ in parts))])
    level = level.astype(np.int64) * len(people)
    level[len(spans) :] += person[1:]
    spans = Spans(**joined([spans, *(some for some, _ in parts)]))
    every = np.arange(int(level.max(initial=-1)) + 1)
    return Told(replace(spans, rank=level), every // len(people), people[every % len(people)])


def _parts(spans: Spans, view: View, behind: Behind, names: Names) -> tuple[Spans, Ints]:
    """The parts of some machine's own spans that are told of, in the clock of the top."""
    some, number, whose = _asked(spans, view, behind.kinds)
    if view.way:
        row, begin, end, who = _behind(number, behind)
    else:
        row, begin, end, who = behind.of(number, whose)
    alike, row, who = whose[row] >= 0, some[row], names.numbers(behind.names)[who]
    if not alike.all():
        for link in reversed(view.way):
            begin, end = link.clock.to_upper(begin), link.clock.to_upper(end)
        # What is as it is there needs no bounds, and may be told of another one that does.
        begin = np.where(alike, begin, np.maximum(begin, spans.begin_ns[row]))
        end = np.where(alike, end, np.minimum(end, spans.end_ns[row]))
        kept = np.flatnonzero(end > begin)
        row, begin, end, who = row[kept], begin[kept], end[kept], who[kept]
    return Spans(spans.owner[row], spans.rank[row], begin, end, spans.of[row]), who


def _asked(spans: Spans, view: View, kinds: Kinds | None) -> tuple[Ints, Ints, Ints]:
    """Which spans are the machine's own of which it is told; which of those each is; and the same
    number of those of one owner and rank that are as they are there: of one machine, nearly all;
    of the others -1."""
    own = view.spans
    if native.LIBRARY is not None and own.rank.dtype == np.int16:
        lifted = (spans.owner, spans.rank, spans.begin_ns, spans.end_ns, spans.of)
        theirs = (own.rank, own.begin_ns, own.end_ns)
        return native.asked(lifted, view.first, theirs, kinds, OF_EVENTS, alike=not view.way)
    number = spans.of - view.first
    some = np.flatnonzero((spans.of >= 0) & (number >= 0) & (number < len(own)))
    if kinds is not None:
        some = some[kinds[number[some]] > 0]
    # What leads to another machine is told by the span that waits for it, and is another rank.
    some = some[OF_EVENTS[spans.rank[some] % len(STACK)] == own.rank[number[some]]]
    number, ranks = number[some], int(spans.rank.max(initial=0)) + 1
    as_is = spans.begin_ns[some] == own.begin_ns[number]
    as_is &= spans.end_ns[some] == own.end_ns[number]
    whose = np.where(as_is & (not view.way), spans.owner[some] * ranks + spans.rank[some], -1)
    return some, number, whose


def _behind(number: Ints, behind: Behind) -> Parts:
    """The parts of some spans, which may be the same ones: their places in ``number``."""
    asked, place = coded(number)
    if len(asked) == len(number):
        # What leads through no other machine is there once.
        return behind.of(number)
    span, since, until, who = behind.of(asked)
    order = order_of(span)
    first = np.searchsorted(span[order], place, side="left")
    count = np.searchsorted(span[order], place, side="right") - first
    part = order[np.repeat(first, count) + ranges(count)]
    return np.repeat(np.arange(len(number)), count), since[part], until[part], who[part]
