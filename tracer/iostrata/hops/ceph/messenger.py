# SPDX-License-Identifier: Apache-2.0
"""Hop ceph: a machine's window in, since when messages were there that its messengers read out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iostrata.columns import AsOf, Ints, at, changes, order_of, overlapping, pair_key
from iostrata.stitch import (
    OSD_REPOPREPLY,
    Columns,
    Sleeps,
    Window,
    exchange_key,
    messages_of,
    sleeps_of,
)


@dataclass(frozen=True, eq=False)
class Read:
    """Messages that a machine's messengers read: one row each, in ns of its clock.

    ``tid``: by which thread, -1: not known. ``begun_ns``: since when they were there, or their
    begins; ``whole_ns``: since when all of them was. Where it is not known, as they were read.
    """

    tid: Ints
    begun_ns: Ints
    whole_ns: Ints


def read_of(window: Window, slack_ns: int, key: Ints, sent_ns: Ints, read_ns: Ints) -> Read:
    """What was read at some times.

    ``key``: as ``_messages`` has it. ``slack_ns``: by how much ``sent_ns`` may be wrong.

    A message that is the first that a thread read since it slept, and was sent before the thread
    was woken, is what it was woken for: for its begin, as what is larger than a socket holds comes
    while it is read. Any other came while the thread was at something else: it is known to be there
    once read, or since the thread lacked its CPU for most of the time until then.
    """
    messages, every = _messages(window), sleeps_of(window)
    # One for a page, or for want of a CPU, is none that a message ends.
    sleeps = every.rows(np.flatnonzero(every.interruptible))
    mine = AsOf(messages["key"], messages["time_ns"]).at_or_before(key, read_ns)
    tid = at(messages["tid"], mine)
    before = AsOf(messages["tid"], messages["time_ns"]).at_or_before(tid, read_ns - 1)
    sleep = AsOf(sleeps.tid, sleeps.on_ns).at_or_before(tid, read_ns)
    known = (mine >= 0) & (at(messages["time_ns"], mine) == read_ns)
    woken = at(sleeps.wake_ns, sleep)
    first = known & (sleep >= 0) & (at(sleeps.on_ns, sleep) > at(messages["time_ns"], before))
    first &= woken >= sent_ns - slack_ns
    # Sooner than anything was there ever, it was not.
    since = np.minimum(np.maximum(woken, sent_ns + slack_ns), read_ns)
    off = _mostly_off(every, tid, np.where(known, since, read_ns), read_ns)
    begun, whole = np.where(first, woken, off), np.where(first, read_ns, off)
    return Read(np.where(known, tid, -1), begun, whole)


def _messages(window: Window) -> Columns:
    """What the messengers of OSDs and of the library read: by which thread; the key is that of the
    operation, or of what it answers."""
    asked = window.columns("osd_message", "tid", "op_key")
    copied = messages_of(window, "osd_message", OSD_REPOPREPLY)
    answered = window.columns("librbd_answered", "tid", "number", "tgid")
    parts = (
        (asked["op_key"], asked),
        (exchange_key(copied["number"], copied["peer"], copied["tgid"]), copied),
        (pair_key(answered["number"], answered["tgid"]), answered),
    )
    told = {name: np.concatenate([each[name] for _, each in parts]) for name in ("time_ns", "tid")}
    return told | {"key": np.concatenate([key for key, _ in parts])}


def _mostly_off(sleeps: Sleeps, tid: Ints, since_ns: Ints, until_ns: Ints) -> Ints:
    """The first time from which on a thread could run and had no CPU for at least as long as it had
    one, ``until_ns`` if there is none."""
    of, off = overlapping(tid, since_ns, until_ns, sleeps.tid, sleeps.runnable_ns, sleeps.on_ns)
    begin = np.maximum(sleeps.runnable_ns[off], since_ns[of])
    # Backwards from each read.
    order = order_of(of, -begin)
    of, begin = of[order], begin[order]
    lasted = np.minimum(sleeps.on_ns[off[order]], until_ns[of]) - begin
    total = np.cumsum(lasted)
    start = np.flatnonzero(changes(of))
    total -= np.repeat(total[start] - lasted[start], np.diff(np.append(start, len(of))))
    found = until_ns.copy()
    most = np.flatnonzero(2 * total >= until_ns[of] - begin)
    np.minimum.at(found, of[most], begin[most])
    return found
