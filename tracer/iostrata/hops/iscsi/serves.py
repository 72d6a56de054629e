# SPDX-License-Identifier: Apache-2.0
"""Hop iscsi: a target's trace in, the commands that it carried out out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at, one_of
from iostrata.hops.connections import number_of
from iostrata.hops.hop import Serves
from iostrata.hops.targets import answered, places_of
from iostrata.hops.workers import taken_up
from iostrata.stitch import Columns, Pieces, Window, sleeps_of, whole
from iostrata.trace import Trace

BEGIN: Final = "target_sequencer_start"
END: Final = "target_cmd_complete"
WORK: Final = "target_work"
READY: Final = "ready_ns"
SYNCHRONIZE_CACHE: Final = (0x35, 0x91)
READ: Final = (0x08, 0x28, 0xA8, 0x88)


def serves_of(lower: Trace, reads: bool = False) -> tuple[Serves, Pieces]:
    """A serve begins as the last of its data is there, or as the command was read, with all of it;
    its piece, as a thread takes that up: it may have been woken for something else.

    The serve ends with the command, the piece as the response is with the connection: the
    initiator may have that before the sender returns. ``reads``: with what reads.
    """
    window = whole(lower)
    begun = window.columns(BEGIN, "tid", "command_key", "itt")
    done = window.columns(
        END, "command_key", "itt", "connection", "ends", "offset_bytes", "size_bytes", "opcode",
    )  # fmt: skip
    began = _begins(begun, done)
    reading = one_of(done["opcode"], READ)
    rows = np.flatnonzero((began >= 0) & (reads | ~reading))
    done = {name: column[rows] for name, column in done.items()}
    begun = {name: column[began[rows]] for name, column in begun.items()}
    end, key = done["time_ns"], done["command_key"]
    tid, there, taken = _taken(lower, begun, end)
    none = np.zeros(len(rows), np.int64)
    sent = window.columns("target_sent", "command_key")
    others = (window.columns(point, "command_key") for point in (BEGIN, END))
    answer = answered("command_key", key, end, sent, *others)
    pieces = Pieces(np.arange(len(rows)), tid, taken, answer, none, key)
    serves = Serves(
        begin_ns=there,
        end_ns=end,
        key=done["itt"],
        group=number_of(done["connection"], done["ends"]),
        shared=none.astype(np.bool_),
        piece=np.arange(len(rows)),
        agent=none,
        flush=one_of(done["opcode"], SYNCHRONIZE_CACHE),
        offset_bytes=places_of(done["offset_bytes"], reading[rows]),
        size_bytes=done["size_bytes"],
    )
    return serves, pieces


def _begins(begun: Columns, done: Columns) -> Ints:
    """Of each command that is complete, the row of its begin, -1: it was not seen.

    Its place in memory is used again at once, and so is its tag.
    """
    key, time = done["command_key"], done["time_ns"]
    found = AsOf(begun["command_key"], begun["time_ns"]).at_or_before(key, time)
    before = AsOf(key, time).at_or_before(key, time - 1)
    mine = (found >= 0) & (at(begun["time_ns"], found) >= at(time, before))
    return np.where(mine & (at(begun["itt"], found) == done["itt"]), found, -1)


def _taken(lower: Trace, begun: Columns, end_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """Who carries each command out, when the last of its data was there, and was taken up.

    A thread takes it up as it goes on for that data, or is done with another command. Where nothing
    is told of what comes in, one that slept since it was at another command was let go on by the
    data, of a command that it had read; what it was woken for before, nothing tells then. If it did
    not sleep, all was there when it came to it.
    """
    if not len(end_ns):
        # Mostly it is no target: nobody's sleep is asked for.
        return end_ns, end_ns, end_ns
    window = whole(lower)
    work = window.columns(WORK, "tid", "request_key")
    tid, execute = taken_up(work, begun["command_key"], begun, end_ns)
    before = at(work["time_ns"], AsOf(work["tid"], work["time_ns"]).at_or_before(tid, execute - 1))
    before = np.maximum(before, _others(window.columns(BEGIN, "tid"), tid, begun, execute))
    sleeps = sleeps_of(window)
    asleep = sleeps.rows(np.flatnonzero(sleeps.asleep))
    slept = AsOf(asleep.tid, asleep.on_ns).at_or_before(tid, execute)
    off, on = at(asleep.off_ns, slept), at(asleep.on_ns, slept)
    waited = (off >= np.maximum(before, 0)) & (slept >= 0)
    at_once = np.maximum(begun["time_ns"], before)
    for_data = waited & (off >= begun["time_ns"])
    there = np.where(for_data, at(asleep.wake_ns, slept), at_once)
    taken = np.where(waited, on, at_once)
    came = _came(window, begun, tid, execute)
    slept_for_it = (slept >= 0) & (off <= came) & (came <= on)
    resumed = np.maximum(np.where(slept_for_it, on, came), before)
    return tid, np.where(came >= 0, came, there), np.where(came >= 0, resumed, taken)


def arrivals_of(window: Window) -> Columns:
    """At which command who was, and when the last of its data came in; nothing, where that is not
    told, as in recordings from before it was."""
    if READY not in window.trace.points[WORK].fields:
        return {}
    return window.columns(WORK, "request_key", READY)


def _came(window: Window, begun: Columns, tid: Ints, execute_ns: Ints) -> Ints:
    """When the last data of each command came in, that its thread had read to carry it out; -1: it
    is not told, or another thread did."""
    told = arrivals_of(window)
    if not told:
        return np.full(len(tid), -1)
    last = AsOf(told["request_key"], told["time_ns"]).at_or_before(begun["command_key"], execute_ns)
    came = at(told[READY], last)
    seen = (at(told["time_ns"], last) == execute_ns) & (tid == begun["tid"]) & (came > 0)
    return np.where(seen, came, -1)


def _others(every: Columns, tid: Ints, begun: Columns, until_ns: Ints) -> Ints:
    """When each thread had last read another command, of which it may have to ask for data."""
    read = AsOf(every["tid"], every["time_ns"])
    last = at(every["time_ns"], read.at_or_before(tid, until_ns - 1))
    earlier = at(every["time_ns"], read.at_or_before(tid, begun["time_ns"] - 1))
    return np.where(last == begun["time_ns"], earlier, last)
