# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: two machines' traces in, what the upper asked and the lower served out.

A *hop* is a kind of crossing from one machine to the next: a guest's block
request that a virtual machine monitor carries out, an NFS client's call that a
server serves. It declares its wire key in one place, its ``asks`` and ``serves``;
everything else about machines is told to no hop.

To add one: a class like ``virtio.Virtio``, and its line in ``HOPS`` (hops.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints
from iostrata.stitch.calls import Pieces
from iostrata.stitch.spans import Spans
from iostrata.trace.read import Trace

if TYPE_CHECKING:
    from iostrata.stitch.lift import Held, Link
    from iostrata.stitch.window import Window


@dataclass(frozen=True)
class Asks:
    """What the upper machine asked, one row each, times in ns of its own clock.

    ``identity``: with ``begin_ns``, what ``stitch.Asked`` names it by. ``key``: the
    wire key. ``group``: what it went through (a disk, a connection). ``shared``: it
    has no key, and is served by whatever serves its group meanwhile (a flush).
    ``told_ns``: when the lower machine began to be told of it, ``heard_ns``: when it
    was heard that something is done; -1: not seen.
    """

    identity: Ints
    begin_ns: Ints
    end_ns: Ints
    key: Ints
    group: Ints
    shared: NDArray[np.bool_]
    told_ns: Ints
    heard_ns: Ints

    def __len__(self) -> int:
        return len(self.key)

    def rows(self, rows: Ints) -> Asks:
        return Asks(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True)
class Serves:
    """What the lower machine served, one row each, times in ns of its own clock.

    ``piece``: row of the pieces that its own events are tied to. ``agent``: the
    process that served (0: the kernel). ``flush``: it made durable and wrote nothing.
    ``offset_bytes``, ``size_bytes``: of what was written.
    """

    begin_ns: Ints
    end_ns: Ints
    key: Ints
    group: Ints
    shared: NDArray[np.bool_]
    piece: Ints
    agent: Ints
    flush: NDArray[np.bool_]
    offset_bytes: Ints
    size_bytes: Ints

    def __len__(self) -> int:
        return len(self.key)


class Hop(Protocol):
    """``floor``: the rank of a piece of the lower machine where no layer is at work."""

    name: str
    floor: str

    def asks(self, upper: Trace) -> Asks: ...

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]: ...

    def crossing(self, link: Link, held: Held) -> Spans:
        """The way there and back, in the upper's clock; ``owner``: row of ``held``."""
        ...

    def context(self, link: Link, window: Window) -> Spans:
        """What else on the lower machine kept the upper one's pieces (``owner``: the row)."""
        ...
