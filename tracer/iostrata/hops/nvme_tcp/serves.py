# SPDX-License-Identifier: Apache-2.0
"""Hop nvme-tcp: a target's trace in, the commands that it carried out out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at, columns_of
from iostrata.hops.carried import there_of
from iostrata.hops.hop import Serves
from iostrata.hops.nvme_tcp.commands import (
    ENDS,
    NUMBERS,
    OPCODE_FLUSH,
    OPCODE_READ,
    groups_of,
    keys_of,
)
from iostrata.hops.targets import answered, places_of
from iostrata.hops.workers import taken_up
from iostrata.stitch import Columns, Pieces, Window
from iostrata.trace import Trace

TOLD: Final = ("init", "complete")


def serves_of(lower: Trace, reads: bool = False) -> tuple[Serves, Pieces]:
    """A serve begins as the command is there, with all its data; its piece, as a worker begins to
    carry it out.

    ``reads``: those that read, too.
    """
    begun = columns_of(lower.points["nvmet_req_init"], "tid", "request_key", "ready_ns", *NUMBERS)
    done = columns_of(
        lower.points["nvmet_req_complete"], "request_key", "offset_bytes", "size_bytes", "dev",
        "opcode", *NUMBERS, *ENDS,
    )  # fmt: skip
    began = _begins(begun, done)
    rows = np.flatnonzero((began >= 0) & (reads | (done["opcode"] != OPCODE_READ)))
    begun = {name: column[began[rows]] for name, column in begun.items()}
    done = {name: column[rows] for name, column in done.items()}
    key, end = begun["request_key"], done["time_ns"]
    data = columns_of(lower.points["nvmet_data"], "request_key", "ready_ns")
    asked = all_there(data, key, begun["time_ns"], end)
    work = columns_of(lower.points["nvmet_work"], "tid", "request_key")
    worker, taken = taken_up(work, key, begun, end)
    number, none = np.arange(len(rows)), np.zeros(len(rows), np.int64)
    sent = columns_of(lower.points["nvmet_answer"], "request_key")
    others = (columns_of(lower.points[f"nvmet_req_{each}"], "request_key") for each in TOLD)
    answer = answered("request_key", key, end, sent, *others)
    pieces = Pieces(number, worker, taken, answer, done["dev"], done["request_key"])
    serves = Serves(
        begin_ns=np.where(asked >= 0, asked, there_of(begun)),
        end_ns=end,
        key=keys_of(done),
        group=groups_of(done),
        shared=none.astype(np.bool_),
        piece=number,
        agent=none,
        flush=done["opcode"] == OPCODE_FLUSH,
        offset_bytes=places_of(done["offset_bytes"], done["opcode"] == OPCODE_READ),
        size_bytes=done["size_bytes"],
    )
    return serves, pieces


def asked_of(window: Window) -> Columns:
    """What is told of data that was asked for: in older recordings, of no other."""
    told = "asked" in window.trace.points["nvmet_data"].fields
    data = window.columns("nvmet_data", "request_key", "ready_ns", *["asked"] * told)
    asked = np.flatnonzero(data["asked"]) if told else slice(None)
    return {name: column[asked] for name, column in data.items()}


def all_there(data: Columns, key: Ints, begin_ns: Ints, end_ns: Ints) -> Ints:
    """Since when all the data of some commands is there, -1: it came with them.

    ``data``: what is told of it as each is carried out.
    """
    found = AsOf(data["request_key"], data["time_ns"]).at_or_after(key, begin_ns)
    told, ready = at(data["time_ns"], found), at(data["ready_ns"], found)
    there = np.where((ready > 0) & (ready < told), ready, told)
    return np.where((found >= 0) & (told <= end_ns), there, -1)


def _begins(begun: Columns, done: Columns) -> Ints:
    """Of each command that is complete, the row of its begin, -1: it was not seen.

    Its control block is used again at once, by a command that has another identifier.
    """
    first = AsOf(begun["request_key"], begun["time_ns"])
    found = first.at_or_before(done["request_key"], done["time_ns"])
    return np.where(at(keys_of(begun), found) == keys_of(done), found, -1)
