# SPDX-License-Identifier: Apache-2.0
"""Hop ceph: who numbers operations and which OSD they are for in, what both ends know of it out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import Ints, pair_key

# What CEPH_ENTITY_TYPE_ has them be (linux/ceph/msgr.h).
OSD: Final = 4
CLIENT: Final = 8
KINDS: Final = 64


def entity(number: Ints, kind: Ints | int) -> Ints:
    """A client, or an OSD."""
    return number * KINDS + kind


def key_of(asker: Ints, number: Ints) -> Ints:
    """An operation's. In this order: with a group before it, no other number of another group is
    the same key (groups of one asker follow one another as numbers do)."""
    return pair_key(asker, number)


def group_of(asker: Ints, osd: Ints, otherwise: Ints | int = 0) -> Ints:
    """What one asks of one OSD. ``otherwise``: what tells it here if it is not known which it is.

    Nobody has a number below 0 on the wire: what is not known is nobody else's.
    """
    return pair_key(asker, np.where(osd >= 0, osd, -1 - otherwise))
