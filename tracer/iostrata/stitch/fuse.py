# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: requests of file systems in user space (FUSE), and what their daemons do."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Containing, Ints, at, joined, pair_key
from iostrata.stitch.librbd import image_calls_of
from iostrata.stitch.ninep import ninep_calls_of
from iostrata.stitch.osd import osd_calls_of
from iostrata.stitch.owners import Owners
from iostrata.stitch.rpc import FUSE_REQUEST, NO_CALLS, Calls, calls_elsewhere, rpc_calls_of
from iostrata.stitch.spans import SpanList, Spans
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window

DAEMON: Final = "fuse.daemon"
"""The floor of what a daemon serves."""


def calls_of(window: Window) -> Calls:
    """All that was asked of other machines, or of processes: of NFS, FUSE, 9p, and of OSDs."""
    kinds = (
        ("nfs_call", rpc_calls_of),
        ("fuse_request", fuse_calls_of),
        ("ninep_request", ninep_calls_of),
        ("osd_send", osd_calls_of),
        ("librbd_request", image_calls_of),
    )
    # Mostly there are none.
    parts = [of(window) for point, of in kinds if len(window.trace.points[point])]
    return Calls(**joined(parts)) if parts else NO_CALLS


def fuse_calls_of(window: Window) -> Calls:
    """Each request as the call of who sent it, which who answered it ended."""
    made = window.columns(
        "fuse_request", "tid", "unique", "send_ns", "offset_bytes", "size_bytes", "dev",
        "asking_tid", "opcode",
    )  # fmt: skip
    return calls_elsewhere(
        key=pair_key(made["unique"], made["dev"]),
        tid=made["asking_tid"],
        xid=made["unique"],
        send_ns=made["send_ns"],
        reply_ns=made["time_ns"],
        operation=made["opcode"] + FUSE_REQUEST,
        device_key=made["dev"],
        end_tid=made["tid"],
        offset_bytes=made["offset_bytes"],
        size_bytes=made["size_bytes"],
    )


def served_of(window: Window) -> Ints:
    """Of each piece the file system that its thread answered a request of, 0: it is none such."""
    pieces = window.pieces
    if window.floor != DAEMON:
        return np.zeros(len(pieces), np.int64)
    calls = fuse_calls_of(window)
    call = AsOf(calls.end_tid, calls.end_ns).at_or_after(pieces.tid, pieces.end_ns)
    return np.where(at(calls.end_ns, call) == pieces.end_ns, at(calls.device_key, call), 0)


def spans_of_daemon(window: Window, owners: Owners, sleeps: Sleeps, owner: Ints) -> Spans:
    """A daemon's own calls while it serves, and its sleeps outside them.  ``owner``: of each
    sleep among the pieces."""
    spans = SpanList()
    if window.floor != DAEMON:
        return spans.collect()
    calls = window.columns("syscall", "tid", "enter_ns")
    enter, leave = calls["enter_ns"], calls["time_ns"]
    spans.add(owners.find(calls["tid"], enter), "syscall", enter, leave)
    mine = np.where(chosen(window, sleeps), owner, -1)
    spans.add(mine, "fuse.wait", sleeps.off_ns, sleeps.wake_ns)
    return spans.collect()


def chosen(window: Window, sleeps: Sleeps) -> NDArray[np.bool_]:
    """Which sleeps are a daemon's for what it chose to wait for: outside its own calls, and
    interruptible, as for a disk it would not be."""
    found: NDArray[np.bool_] = sleeps.interruptible
    if window.floor != DAEMON:
        return np.zeros(len(sleeps), np.bool_)
    calls = window.columns("syscall", "tid", "enter_ns")
    inside = Containing(calls["tid"], calls["enter_ns"], calls["time_ns"])
    off, on = (inside.find(sleeps.tid, time) for time in (sleeps.off_ns, sleeps.on_ns))
    found &= ~((off >= 0) & (off == on))
    return found
