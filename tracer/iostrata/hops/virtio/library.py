# SPDX-License-Identifier: Apache-2.0
"""Hop virtio: a guest and its host in, what the guest read of disks that its VMM has by Ceph's
library (librbd) out: of that the library's requests are not told, only that it asked for something.
"""

from __future__ import annotations

from iostrata.columns import Ints, distinct, one_of
from iostrata.hops.hop import READ_MARK, Link
from iostrata.stitch import images_of, processes_of, whole
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_VMM


def reads_by_library(host: Trace) -> bool:
    """Whether any VMM read a disk by it."""
    made = images_of(whole(host)).operations
    return bool(one_of(made.tgid[made.read], processes_of(host, THREAD_VMM)).any())


def read_by_library(link: Link) -> Ints:
    """Of groups of asks of which the host saw nothing, those that may be such reads.

    Of a disk that was written to as well, it is known where that was done.
    """
    groups = link.bypassed
    if not reads_by_library(link.lower.trace):
        return groups[:0]
    pairs, asks = link.pairs, link.asks
    images = distinct(images_of(whole(link.lower.trace)).requests.image)
    written, served = asks.group[pairs.ask], link.serves.group[pairs.serve]
    elsewhere = distinct(written[~one_of(served, images)])
    found: Ints = groups[((groups & READ_MARK) != 0) & ~one_of(groups & ~READ_MARK, elsewhere)]
    return found
