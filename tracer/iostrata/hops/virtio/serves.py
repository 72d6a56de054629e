# SPDX-License-Identifier: Apache-2.0
"""Hop virtio: a host's trace in, what its virtual machine monitors wrote and made durable out."""

from __future__ import annotations

from iostrata.hops.hop import Serves
from iostrata.hops.processes import processes_of, served_by
from iostrata.stitch import Pieces
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_VMM


def serves_of(lower: Trace) -> tuple[Serves, Pieces]:
    """Every call and every request of a VMM that writes or makes durable."""
    return served_by(lower, processes_of(lower, THREAD_VMM))
