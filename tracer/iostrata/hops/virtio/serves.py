# SPDX-License-Identifier: Apache-2.0
"""Hop virtio: a host's trace in, what its virtual machine monitors did with files out.

And what did a daemon that has a guest's disk instead (vhost-user).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import Ints, distinct
from iostrata.hops.hop import Serves
from iostrata.hops.processes import read_by, served_by
from iostrata.stitch import Pieces, Reads, processes_of
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_DAEMON, THREAD_VMM

# As the kernel names its threads, which is no longer than that.
STORAGE_DAEMON: Final = b"qemu-storage-da"


def servers_of(lower: Trace) -> Ints:
    """The processes that have guests' disks."""
    daemons = processes_of(lower, THREAD_DAEMON, STORAGE_DAEMON)
    return distinct(np.append(processes_of(lower, THREAD_VMM), daemons))


def serves_of(lower: Trace, reads: bool = False) -> tuple[Serves, Pieces]:
    """Every call and every request of a VMM that writes or makes durable; ``reads``: or reads.

    Also those that make room in a file, each for a place of it. What a VMM writes to files that are
    no disk of its guest's (a console's log) is its own.
    """
    return served_by(lower, servers_of(lower), reads, rooms=True, disks=True)


def reads_of(lower: Trace) -> Reads:
    """What each piece of these read."""
    return read_by(lower, servers_of(lower), rooms=True)
