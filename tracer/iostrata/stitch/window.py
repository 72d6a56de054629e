# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: a trace and the pieces of its writes in, windows of both out.

A recording is stitched window by window: what a window needs fits a core's
cache, and memory does not grow with the recording. A window holds some of the
pieces, ordered by begin, and all events of the time that can matter to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import NEVER, Ints, in_order, order_of, taken
from iostrata.stitch.calls import Pieces, Reads
from iostrata.stitch.journal import Commits
from iostrata.trace import Trace

WINDOW_PIECES = 15_000
CROWD: Final = 48
MOST_BESIDE: Final = 128
"""A request beside so many others at least takes the room of nearly four pieces, beside 48 that of
two: it may wait for all that it is behind (see ``occupied``)."""
BESIDE: Final = 512
"""So many pieces before a window, and behind it, may be stitched with it, too."""
MARGIN_NS = 10_000_000
MOST_READ_BYTES: Final = 16 << 20
OWN_FLOOR: Final = "syscall"

Columns = dict[str, Ints]
T = TypeVar("T")

NOTHING: Final = np.zeros(0, np.int64)
NO_PIECES: Final = Pieces(**{column.name: np.zeros(0, np.int64) for column in fields(Pieces)})
NO_COMMITS: Final = Commits(**{column.name: np.zeros(0, np.int64) for column in fields(Commits)})


@dataclass(frozen=True)
class Window:
    """``pieces`` and ``commits`` as rows of their own; events of ``begin_ns`` .. ``end_ns``.

    ``floor``: name of the rank that a piece has where no layer is at work. ``reads``: what the
    pieces read, None: they are no reads.
    """

    trace: Trace
    pieces: Pieces
    commits: Commits
    begin_ns: int
    end_ns: int
    floor: str = OWN_FLOOR
    reads: Reads | None = None
    _read: dict[tuple[str, str], Ints] = field(default_factory=dict, repr=False, compare=False)
    _made: dict[Callable[[Window], Any], Any] = field(
        default_factory=dict, repr=False, compare=False
    )
    # Of a point, which of its events are the window's.
    _ranges: dict[str, list[int]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def serves(self) -> bool:
        """The pieces are no calls of this machine's own, but what a server of its kernel did."""
        return self.floor != OWN_FLOOR

    def columns(self, point: str, *fields: str) -> Columns:
        """The point's events of the window: ``time_ns`` and the fields, int64, in time order.

        Each is read once, whoever asks, until it is let go of: nobody may write to it.
        """
        events = self.trace.points[point]
        if not len(events):
            # Most points are of kinds of work that a recording does not have.
            return dict.fromkeys(("time_ns", *fields), NOTHING)
        if point not in self._ranges:
            edges = np.array([self.begin_ns, self.end_ns + 1], np.uint64)
            self._ranges[point] = events.time_ns.searchsorted(edges).tolist()
        first, last = self._ranges[point]
        missing = [field for field in fields if (point, field) not in self._read]
        found = {}
        if missing:
            # Other points' of the same time are next.
            found = events.integers(*missing, begin=first, end=last, stay=True)
        for name in missing:
            found[name].flags.writeable = False
            self._read[point, name] = found[name]
        time_ns = events.time_ns[first:last].view(np.int64)
        return {"time_ns": time_ns} | {name: self._read[point, name] for name in fields}

    def once(self, make: Callable[[Window], T]) -> T:
        """What is made of the window, whoever asks."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def forget(self) -> None:
        """Lets go of what was read, if it is much: of a crowded window as much as all that is made
        of it.

        Whoever asks later has it read again.
        """
        if sum(column.nbytes for column in self._read.values()) > MOST_READ_BYTES:
            self._read.clear()
            self._made.clear()


_MADE: Final[WeakKeyDictionary[Trace, dict[Callable[[Window], Any], Any]]] = WeakKeyDictionary()


def whole(trace: Trace) -> Window:
    """All of a trace's events, and no pieces: what is made of it is kept as long as that is."""
    made = _MADE.setdefault(trace, {})
    return Window(trace, NO_PIECES, NO_COMMITS, 0, NEVER - 1, _made=made)


@dataclass(frozen=True, eq=False)
class Section:
    """Pieces that are stitched together, in order of begin: ``rows``, of which ``own`` are the
    window's, each of which is one window's.

    The others are requests beside them, of io_uring or libaio: who waits for a worker waits for
    what that does for these.
    """

    rows: Ints
    own: slice

    def __len__(self) -> int:
        count: int = self.own.stop - self.own.start
        return count

    @property
    def are_own(self) -> NDArray[np.bool_] | None:
        """Which of them are. None: all."""
        if len(self) == len(self.rows):
            return None
        found = np.zeros(len(self.rows), np.bool_)
        found[self.own] = True
        return found

    def told(self, column: NDArray[Any], nothing: Any) -> NDArray[Any]:
        """What a column has of its own ones, and ``nothing`` of the others."""
        found = column[self.rows]
        found[: self.own.start] = found[self.own.stop :] = nothing
        return found


class _InOrder(NamedTuple):
    """Of pieces, in order of begin. ``request``: it is one, no call."""

    begin_ns: Ints
    end_ns: Ints
    request: NDArray[np.bool_]


def windows(pieces: Pieces, sides: Ints | None = None) -> Iterator[Section]:
    """The pieces of each window: all of one of the ``sides``, if any are told."""
    order, first = order_of(pieces.begin_ns), 0
    request = taken(pieces.request_key, order) != 0
    every = _InOrder(pieces.begin_ns[order], pieces.end_ns[order], request)
    rooms = _rooms(every)
    ends = [len(order)]
    if sides is not None:
        ends = [*(np.flatnonzero(np.diff(sides[order])) + 1).tolist(), *ends]
    for end in ends:
        side = slice(first, end)
        while first < end:
            own = slice(first, min(_last(every, first, rooms), end))
            before, behind = _beside(every, own, side)
            rows = np.concatenate([order[before], order[own], order[behind]])
            first, count = own.stop, own.stop - own.start
            yield Section(rows, slice(len(before), len(before) + count))


def _beside(every: _InOrder, own: slice, side: slice) -> tuple[Ints, Ints]:
    """Requests that are under way together with some of ``own``: those that begin before them, and
    those behind; no further away than the window reaches anyway."""
    begins, ends, request = every
    if not request[own].any():
        return NOTHING, NOTHING
    begin, end = int(begins[own.start]), int(ends[own].max())
    longest = int((ends[own] - begins[own]).max())
    first, last = np.searchsorted(begins, (begin - longest, end + 1)).tolist()
    before = np.arange(max(first, own.start - BESIDE, side.start), own.start)
    behind = np.arange(own.stop, min(last, own.stop + BESIDE, side.stop))
    before = before[request[before] & (ends[before] >= begin)]
    return before, behind[request[behind] & (ends[behind] <= end + longest)]


def _rooms(every: _InOrder) -> Ints | None:
    """What room each takes and all before it, together; a piece by itself ``CROWD``. None: all are
    by themselves."""
    begins, ends, request = every
    if not request.any():
        return None
    begun, ended = np.cumsum(request) - 1, in_order(ends[request])
    beside = begun - np.searchsorted(ended, begins, side="right")
    rooms: Ints = np.cumsum(CROWD + np.where(request, np.minimum(beside, MOST_BESIDE), 0))
    return rooms


def window_of(
    trace: Trace,
    pieces: Pieces,
    commits: Commits,
    floor: str = OWN_FLOOR,
    reads: Reads | None = None,
    beside: Pieces = NO_PIECES,
) -> Window:
    """The window of some pieces. ``beside``: all of their machine's, of which these are some.

    It reaches so far that whatever was in flight when one of them began has its other edge, too:
    see ``_margins``; and as far as the commits that do so. But not to what is behind a loss that
    touches none of them: what has a pointer, or is a thread's, there is not what had it here.
    """
    begin, end = int(pieces.begin_ns.min()), int(pieces.end_ns.max())
    longest = int((pieces.end_ns - pieces.begin_ns).max())
    before, behind = _margins(beside, begin, end, longest)
    margin = MARGIN_NS + (reads.reach_ns if reads else 0)
    reaching = (commits.end_ns >= begin) & (commits.begin_ns <= end)
    inside = commits.rows(np.flatnonzero(reaching))
    since, until = 0, NEVER
    if len(trace.losses):
        since, until = trace.losses.around(pieces.begin_ns, pieces.end_ns)
    return Window(
        trace,
        pieces,
        inside,
        max(min(begin - before - margin, int(inside.begin_ns.min(initial=begin))), since),
        min(max(end + behind + margin, int(inside.end_ns.max(initial=end))), until),
        floor,
        reads,
    )


def _margins(pieces: Pieces, begin: int, end: int, longest: int) -> tuple[int, int]:
    """How long before ``begin`` and behind ``end`` what was in flight then began and ended.

    As long as the ``longest`` of the window's own pieces, as what else was in flight is not known
    before it is stitched. In a crowd it is known: more pieces than a window has are there, and as
    far as any of them reaches all that works for them does, too.
    """
    since, until = begin - longest, end + longest
    before = np.diff(np.searchsorted(pieces.begins_ns, (since, begin)))
    behind = np.diff(np.searchsorted(pieces.ends_ns, (end, until), side="right"))
    if before > WINDOW_PIECES:
        reaching = (pieces.begin_ns < begin) & (pieces.end_ns >= begin)
        since = max(since, int(pieces.begin_ns[reaching].min(initial=begin)))
    if behind > WINDOW_PIECES:
        reaching = (pieces.begin_ns <= end) & (pieces.end_ns > end)
        until = min(until, int(pieces.end_ns[reaching].max(initial=end)))
    return begin - since, until - end


def _last(every: _InOrder, first: int, rooms: Ints | None) -> int:
    """Enough pieces, and enough time that the margins do not outweigh it."""
    begins, ends, _ = every
    last = min(first + WINDOW_PIECES, len(begins))
    if rooms is not None:
        room = CROWD * WINDOW_PIECES + (int(rooms[first - 1]) if first else 0)
        last = max(int(np.searchsorted(rooms, room, side="right")), first + 1)
    longest = int((ends[first:last] - begins[first:last]).max())
    return max(last, int(np.searchsorted(begins, begins[first] + longest, side="right")))
