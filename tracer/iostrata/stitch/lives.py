# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: where bios began and what was complete in, when each was so and what is of which
out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iostrata import native
from iostrata.columns import AsOf, Ints, ascend, at, order_of
from iostrata.stitch.begun import Begun, Ends, alive


@dataclass(frozen=True, eq=False)
class Issued:
    """What was issued with the pointer of a bio, on a device: one row each."""

    bio_key: Ints
    time_ns: Ints
    device_key: Ints

    def __len__(self) -> int:
        return len(self.bio_key)


@dataclass(frozen=True, eq=False)
class Lives:
    """``end_ns``: of each bio that began, its last completion before its pointer was used again,
    -1: none was seen.

    ``issued``: of each row that was issued, the bio that had begun and was not complete, on that
    device. ``of_requests``, ``alone``: of each completion of a request, and of a bio alone, the
    last that had begun with its pointer. -1: there is none.
    """

    end_ns: Ints
    issued: Ints
    of_requests: Ints
    alone: Ints


def lives_of(begun: Begun, ends: Ends, issued: Issued) -> Lives:
    """The lives of some bios, by their pointers."""
    return (_followed if native.LIBRARY is None else _followed_in_c)(begun, ends, issued)


def _followed(begun: Begun, ends: Ends, issued: Issued) -> Lives:
    by_key = AsOf(begun.key, begun.time_ns)
    end = ends.at_or_before(begun.key, by_key.following() - 1)
    bio = by_key.at_or_before(issued.bio_key, issued.time_ns)
    same = at(begun.device_key, bio) == issued.device_key
    same &= alive(begun, ends, bio, issued.time_ns)
    of_requests, alone = (
        by_key.at_or_before(events["bio_key"], events["time_ns"])
        for events in (ends.of_requests, ends.alone)
    )
    return Lives(
        np.where(end >= begun.time_ns, end, -1), np.where(same, bio, -1), of_requests, alone
    )


def _followed_in_c(begun: Begun, ends: Ends, issued: Issued) -> Lives:
    order = slice(None) if ascend(issued.time_ns) else order_of(issued.time_ns)
    bio, back = np.empty(len(issued), np.int64), ends.given_back.astype(np.int64)
    end, of_requests, alone, bio[order] = native.follow_bios(
        (begun.key, begun.time_ns, begun.device_key),
        (ends.of_requests["bio_key"], ends.of_requests["time_ns"], back),
        (ends.alone["bio_key"], ends.alone["time_ns"]),
        (issued.bio_key[order], issued.time_ns[order], issued.device_key[order]),
    )
    return Lives(end, bio, of_requests, alone)
