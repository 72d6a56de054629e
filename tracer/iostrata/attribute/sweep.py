# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: the pieces' spans in, nanoseconds per rank of the stack and write out.

At each instant of a write the deepest rank at work holds the time. All spans lie on
one long axis, where each piece has a stretch of its own. Spans of one rank that
overlap become one, so that each of their edges switches the rank on or off: which
ranks are at work after an edge is the exclusive or of all switches until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import Ints, coded, distinct, order_of

if TYPE_CHECKING:
    from iostrata.stitch import Spans

PLACE_BITS: Final = 62
"""How many bits a time and a level have together in one number."""
WORD_BITS: Final = 52
"""How many ranks' switches one number holds: float64 tells the highest bit of so many."""


@dataclass(frozen=True, eq=False)
class Held:
    """Who held which stretch of the pieces' time, in order of piece and time; one row a stretch.

    ``level``: place in ``ranks``, which ascend. ``since_ns``, ``until_ns``: in the clock of the
    pieces; stretches may be empty, and neighbours of one rank.
    """

    ranks: Ints
    level: Ints
    owner: Ints
    since_ns: Ints
    until_ns: Ints

    @property
    def stretches(self) -> tuple[Ints, Ints, Ints, Ints]:
        return self.level, self.owner, self.since_ns, self.until_ns

    def of(self, some: NDArray[np.bool_]) -> Held:
        """The stretches of some of the ranks."""
        rows = self.rows(some)
        return Held(self.ranks, *(column[rows] for column in self.stretches))

    def rows(self, some: NDArray[np.bool_]) -> Ints:
        """Rows of the stretches of some of the ranks; mostly of none."""
        return np.flatnonzero(some[self.level]) if some.any() else np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Credit:
    """How long ranks held pieces' time, never 0: one row a rank and piece, in that order."""

    rank: Ints
    owner: Ints
    time_ns: Ints


def attribute(held: Held, pieces: int, some: NDArray[np.bool_] | None = None) -> Credit:
    """How long each rank held the time of each piece. ``some``: which of the ranks; None: all."""
    if native.LIBRARY is not None:
        wanted = np.ones(len(held.ranks), np.bool_) if some is None else some
        level, owner, time_ns = native.attribute(held.stretches, wanted, pieces)
        return Credit(held.ranks[level], owner, time_ns)
    held = held if some is None else held.of(some)
    if not len(held.level):
        return Credit(held.level, held.owner, held.since_ns)
    # Sums of float64 are exact: they are below 2**53 ns (104 days).
    credit = np.bincount(
        held.level * pieces + held.owner,
        weights=held.until_ns - held.since_ns,
        minlength=len(held.ranks) * pieces,
    )
    level, owner = np.nonzero(credit.reshape(len(held.ranks), pieces))
    return Credit(held.ranks[level], owner, credit[level * pieces + owner].astype(np.int64))


def sweep(spans: Spans, begin_ns: Ints, end_ns: Ints) -> Held:
    """The stretches of the pieces' time that any of their spans was at work in.

    ``spans.owner`` indexes ``begin_ns``/``end_ns``; what a span has outside its
    piece's own time is not credited.
    """
    if (ranked := _ranked(spans, begin_ns, end_ns)) is not None:
        found = native.sweep(ranked, np.ones(len(ranked.ranks), np.bool_))
        if found is not None:
            return _held(ranked.ranks, *found)
    return _by_columns(spans, begin_ns, end_ns)


@dataclass(frozen=True, eq=False)
class Shared:
    """``held``: stretches of some ranks. ``time_ns``: of each of ``places``, in order, what it had
    of each write: shape (places, writes), of half the bits where those are enough."""

    held: Held
    places: Ints
    time_ns: NDArray[np.integer[Any]]


def share(
    spans: Spans,
    times: tuple[Ints, Ints],
    told: Callable[[Ints], tuple[Ints, NDArray[np.bool_]]],
    write: Ints,
    writes: int,
) -> Shared:
    """What places had of so many writes, by the sweep's rule.

    ``times``: begins and ends of the pieces. ``told``: of some ranks the place of each, and whether
    its stretches are wanted; ``write``: of each piece, -1: of none.
    """
    if (ranked := _ranked(spans, *times)) is not None:
        place, kept = told(ranked.ranks)
        places, row = coded(place)
        for kind in (np.uint32, np.int64):
            time_ns = np.zeros((len(places), writes), kind)
            found = native.sweep(ranked, kept, native.Sums(row, write, time_ns))
            if found is None:
                continue
            met = np.bincount(row[found[0]], minlength=len(places)) > 0
            if not met.all():
                places, time_ns = places[met], time_ns[met]
            return Shared(_held(ranked.ranks, *found), places, time_ns)
    held = _by_columns(spans, *times)
    place, kept = told(held.ranks)
    places, row = coded(place)
    time_ns = np.zeros((len(places), writes), np.int64)
    some = np.flatnonzero(write[held.owner] >= 0)
    took = held.until_ns[some] - held.since_ns[some]
    np.add.at(time_ns, (row[held.level[some]], write[held.owner[some]]), took)
    return Shared(held.of(kept), places, time_ns)


def _ranked(spans: Spans, begin_ns: Ints, end_ns: Ints) -> native.Ranked | None:
    if native.LIBRARY is None:
        return None
    times = spans.begin_ns, spans.end_ns
    return native.Ranked.of(spans.owner, spans.rank, times, (begin_ns, end_ns))


def _held(ranks: Ints, met: NDArray[np.bool_], level: Ints, *stretches: Ints) -> Held:
    """``met``: of each of the ranks, whether any span has it within its piece's time."""
    if met.all():
        return Held(ranks, level, *stretches)
    return Held(ranks[met], (np.cumsum(met) - 1)[level], *stretches)


def _by_columns(spans: Spans, begin_ns: Ints, end_ns: Ints) -> Held:
    # A write that hung for hours must not make every other's stretch as long.
    after = np.cumsum(end_ns - begin_ns + 1)
    start = after - (end_ns - begin_ns + 1)
    base = (start - begin_ns)[spans.owner]
    begin = np.maximum(spans.begin_ns + base, start[spans.owner])
    end = np.minimum(spans.end_ns + base, (after - 1)[spans.owner])
    some = np.flatnonzero(end > begin)
    # From -1 on: nobody is a rank, too.
    number = spans.rank[some] + 1
    present = np.bincount(number) > 0
    level = (np.cumsum(present) - 1)[number]
    ranks = np.flatnonzero(present) - 1
    begin, end, ticks = _told_shortly(begin[some], end[some], len(ranks))
    begin, end, level = _merged(begin, end, level, int(end.max(initial=0)) + 1)
    # A time and a level fit into one number.
    bits = len(ranks).bit_length()
    edges = np.concatenate([begin << bits | level, end << bits | level])
    edges.sort(kind="stable")
    time, holder = edges >> bits, _holder(edges & ((1 << bits) - 1), len(ranks))
    time = time if ticks is None else ticks[time]
    held = np.flatnonzero(holder >= 0)
    since, until = time[held], time[held + 1]
    # There are fewer pieces to be found among the stretches than the other way round.
    owner = np.repeat(np.arange(len(after)), np.diff(np.searchsorted(since, after), prepend=0))
    back = (begin_ns - start)[owner]
    return Held(ranks, holder[held], owner, since + back, until + back)


def _told_shortly(begin: Ints, end: Ints, levels: int) -> tuple[Ints, Ints, Ints | None]:
    """Times as they are, or where that is too long beside a level, as places in all of them."""
    if int(end.max(initial=0)).bit_length() + levels.bit_length() <= PLACE_BITS:
        return begin, end, None
    ticks = distinct(np.concatenate([begin, end]))
    return np.searchsorted(ticks, begin), np.searchsorted(ticks, end), ticks


def _merged(begin: Ints, end: Ints, level: Ints, axis_ns: int) -> tuple[Ints, Ints, Ints]:
    """Spans of one level that overlap or touch as one, in order of level and begin."""
    # As if each level had an axis of its own behind the one before it.
    shift = level * axis_ns
    begin, end = begin + shift, end + shift
    order = order_of(begin)
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    opens = np.flatnonzero(np.append(True, begin[1:] > reach[:-1])[: len(begin)])
    closes = np.append(opens[1:], len(begin))[: len(opens)] - 1
    level = level[order[opens]]
    return begin[opens] - level * axis_ns, reach[closes] - level * axis_ns, level


def _holder(switched: Ints, levels: int) -> Ints:
    """The highest level that is on after each switch, -1: none."""
    holder = np.full(len(switched), -1)
    for lowest in range(0, levels, WORD_BITS):
        bits = np.zeros(levels, np.int64)
        word = bits[lowest : lowest + WORD_BITS]
        word[:] = 1 << np.arange(len(word))
        on = np.bitwise_xor.accumulate(bits[switched])
        # The highest bit of a whole number is the exponent of the float, here below 0 for 0.
        highest = (on.astype(np.float64).view(np.int64) >> 52) - 1023
        np.copyto(holder, highest + lowest, where=on > 0)
    return holder
