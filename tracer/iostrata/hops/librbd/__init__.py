# SPDX-License-Identifier: Apache-2.0
"""What programs of the workload ask of disks of Ceph by its library (librbd), without a call.

Nobody else asks them for it: each request is a write, or a flush, of their own.
"""

from __future__ import annotations

import numpy as np

from iostrata.hops.hop import Asks, Held, Hop, Link, Serves
from iostrata.hops.processes import by_library
from iostrata.stitch import Pieces, SpanList, Spans, processes_of
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_LIBRBD

NONE = np.zeros(0, np.int64)


class Librbd(Hop):
    """A request to the library, by a thread of the workload."""

    name = "librbd"
    own = True

    def asks(self, upper: Trace) -> Asks:
        none = NONE.astype(np.bool_)
        return Asks(NONE, NONE, NONE, NONE, NONE, none, NONE, NONE, NONE, NONE)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return by_library(lower, processes_of(lower, THREAD_LIBRBD))

    def crossing(self, link: Link, held: Held) -> Spans:
        return SpanList().collect()
