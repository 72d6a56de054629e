# SPDX-License-Identifier: Apache-2.0
"""What programs of the workload ask of disks of Ceph by its library (librbd), without a call.

Nobody else asks them for it: each request is a write, or a flush, of their own. Where the library
has a cache, which answers writes before an OSD has them, only flushes make anything durable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import distinct, one_of
from iostrata.hops.hop import Asks, Held, Hop, Link, Serves
from iostrata.hops.processes import by_library, some_of
from iostrata.model import NotObserved
from iostrata.stitch import Pieces, SpanList, Spans, images_of, processes_of, whole
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_LIBRBD

NONE: Final = np.zeros(0, np.int64)
MOSTLY: Final = 0.5


class Librbd(Hop):
    """A request to the library, by a thread of the workload."""

    name = "librbd"
    own = True

    def asks(self, upper: Trace) -> Asks:
        none = NONE.astype(np.bool_)
        return Asks(NONE, NONE, NONE, NONE, NONE, none, NONE, NONE, NONE, NONE)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return by_library(lower, processes_of(lower, THREAD_LIBRBD))

    def written(self, lower: Trace) -> tuple[Serves, Pieces]:
        serves, pieces = self.serves(lower)
        return some_of(serves, pieces, np.flatnonzero(~_answered_by_a_cache(serves, lower)))

    def plain(self, lower: Trace) -> int:
        return int(_answered_by_a_cache(self.serves(lower)[0], lower).sum())

    def reads_untold(self, upper: Trace) -> Iterator[NotObserved]:
        if len(processes_of(upper, THREAD_LIBRBD)):
            what = "what its programs read from disks of Ceph by its library is not looked at"
            yield NotObserved(self.name, what, "")

    def crossing(self, link: Link, held: Held) -> Spans:
        return SpanList().collect()


def _answered_by_a_cache(serves: Serves, lower: Trace) -> NDArray[np.bool_]:
    """Writes to disks most of whose operations were on their way when what they are of was
    answered: some are of what was asked for before it was recorded."""
    found = images_of(whole(lower))
    made, early = found.operations, found.early
    placed = made.writes & (made.osd >= 0)
    disks, disk = np.unique(made.disk[placed], return_inverse=True)
    share = np.bincount(disk, early[placed], len(disks)) / np.maximum(np.bincount(disk), 1)
    cached = one_of(found.requests.disk, disks[share > MOSTLY])
    return ~serves.flush & one_of(serves.group, distinct(found.requests.image[cached]))
