# SPDX-License-Identifier: Apache-2.0
"""The hop from a network block device to rbd-nbd, which has the disk from Ceph.

It is on the same machine. Its wire key is the place on the disk, in a request to the library
(librbd); a flush has none. The program is known by the thread that reads requests: all of its
threads have names of their own.
"""

from __future__ import annotations

from iostrata.hops.nbd import Nbd


class RbdNbd(Nbd):
    """A block request, handed to the library by a thread of rbd-nbd."""

    name = "rbd-nbd"
    server = b"rbd_reader"
