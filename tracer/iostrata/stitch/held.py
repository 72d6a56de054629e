# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: bios that a control group's limit held back in, who had asked for them out.

Whoever hands such a bio on, a thread of the kernel's, did not ask for it. Of libaio's request to a
disk itself (a store's that has the disk for its own), its place on the disk tells which that was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.columns import NEVER, AsOf, Ints, at, one_of, pair_key
from iostrata.stitch.bios import Bios
from iostrata.stitch.opcodes import AIO_READS, AIO_WRITES
from iostrata.stitch.reads import OPEN_OF_DEVICE
from iostrata.stitch.window import Window

SECTOR_BYTES: Final = 512


@dataclass(frozen=True, eq=False)
class Asking:
    """Of each bio who asked for it, and when.

    ``since_ns``: since when a limit had held it back, -1: none did, or that is not told.
    """

    tid: Ints
    time_ns: Ints
    since_ns: Ints


def asked_for(window: Window, bios: Bios) -> Asking:
    """One that no other at its place came before since it was asked for, and that was not complete
    yet, is that request's."""
    none = np.full(len(bios), -1)
    held = np.flatnonzero(bios.held)
    held = held[bios.root[held] == held] if len(held) else held
    # Older recorders do not tell at which place a request was.
    if not len(held) or "offset_bytes" not in window.trace.points["aio_submit"].fields:
        return Asking(bios.tid, bios.begin_ns, none)
    told = window.columns("aio_submit", "tid", "enter_ns", "iocb_key", "dev", "open_flags",
                          "opcode", "offset_bytes")  # fmt: skip
    of_disk = (told["open_flags"] & OPEN_OF_DEVICE) != 0
    of_disk &= one_of(told["opcode"], (*AIO_WRITES, *AIO_READS))
    rows = np.flatnonzero(of_disk)
    asked = {name: column[rows] for name, column in told.items()}
    done = window.columns("aio_complete", "iocb_key")
    found = AsOf(done["iocb_key"], done["time_ns"]).at_or_after(asked["iocb_key"], asked["time_ns"])
    end_ns = np.where(found >= 0, at(done["time_ns"], found), NEVER)
    place = pair_key(bios.device_key, bios.sector)
    request = AsOf(
        pair_key(asked["dev"], asked["offset_bytes"] // SECTOR_BYTES), asked["enter_ns"]
    ).at_or_before(place[held], bios.begin_ns[held])
    before = AsOf(place, bios.begin_ns).at_or_before(place[held], bios.begin_ns[held] - 1)
    mine = (request >= 0) & (at(end_ns, request) >= bios.begin_ns[held])
    mine &= at(bios.begin_ns, before) < at(asked["enter_ns"], request)
    held, request = held[mine], request[mine]
    tid, time_ns, since_ns = bios.tid.copy(), bios.begin_ns.copy(), none
    tid[held] = asked["tid"][request]
    time_ns[held] = asked["enter_ns"][request]
    since_ns[held] = np.minimum(asked["time_ns"][request], bios.begin_ns[held])
    return Asking(tid, time_ns, since_ns)
