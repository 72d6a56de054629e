# SPDX-License-Identifier: Apache-2.0
"""Hop ninep: a host's trace in, what its QEMUs wrote and made durable, by file, out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iostrata.hops.hop import Serves
from iostrata.hops.ninep.files import file_of
from iostrata.hops.processes import served_by
from iostrata.stitch import Pieces, processes_of
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_VMM


def serves_of(lower: Trace) -> tuple[Serves, Pieces]:
    """Each call is of one request, a sync, too: it has a key then, the file's own."""
    serves, pieces = served_by(lower, processes_of(lower, THREAD_VMM), file_of=file_of)
    return replace(serves, shared=np.zeros(len(serves), np.bool_)), pieces
