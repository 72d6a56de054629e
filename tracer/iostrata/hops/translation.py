# SPDX-License-Identifier: Apache-2.0
"""Hops: asks by the upper machine's places in, by the lower machine's out.

Between key and key there may be a map: a partition begins somewhere, a LUN is an extent
of a disk, an image format has a table. It is a fact of the recording, and holds for a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from iostrata.columns import Ints, pair_key
from iostrata.hops.hop import Asks


@dataclass(frozen=True, eq=False)
class Extents:
    """Where ranges of the upper machine's groups are on the lower one: one row a range.

    ``begin_bytes``, ``end_bytes``: of the group; ``to_bytes``: where it begins below.
    ``since_ns``, ``until_ns``: when that is so, in the upper machine's clock.
    """

    group: Ints
    begin_bytes: Ints
    end_bytes: Ints
    to_bytes: Ints
    since_ns: Ints
    until_ns: Ints


def translated(asks: Asks, extents: Extents) -> Asks:
    """The asks at their places below; those that lie in no extent as they are.

    What reaches from one extent into the next is in several places below: it has no
    place, and no key.
    """
    offset, size = asks.offset_bytes.copy(), asks.size_bytes.copy()
    key = asks.key.copy()
    for row in range(len(extents.group)):
        last = asks.offset_bytes + np.maximum(asks.size_bytes, 1) - 1
        begin, end = extents.begin_bytes[row], extents.end_bytes[row]
        mine = ~asks.shared & (asks.group == extents.group[row])
        mine &= (asks.begin_ns >= extents.since_ns[row]) & (asks.begin_ns < extents.until_ns[row])
        mine &= (asks.offset_bytes < end) & (last >= begin)
        whole = mine & (asks.offset_bytes >= begin) & (last < end)
        moved = asks.offset_bytes + extents.to_bytes[row] - begin
        offset[whole], key[whole] = moved[whole], pair_key(moved, asks.size_bytes)[whole]
        apart = mine & ~whole
        size[apart], key[apart] = 0, NO_KEY
    return replace(asks, key=key, offset_bytes=offset, size_bytes=size)


NO_KEY = np.iinfo(np.int64).min
"""Of what nothing below has the key of."""
