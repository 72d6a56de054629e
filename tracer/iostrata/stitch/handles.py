# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what each thread's handles changed in, whose the commits of a journal are out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import NEVER, AsOf, Ints, at, joined
from iostrata.stitch.bios import Bios
from iostrata.stitch.journal import Commits
from iostrata.stitch.people import People
from iostrata.stitch.window import Window

TRANSACTIONS: Final = 1 << 32


def every_commit(window: Window) -> Commits:
    """The window's commits, and behind them those of which no end was seen.

    Nobody was seen to wait for such a one, but what it wrote meanwhile was ahead of others.
    """
    commits = window.commits
    started = window.columns("jbd2_start_commit", "tid", "dev", "transaction")
    ended = commits.device_key * TRANSACTIONS + commits.transaction
    open_ = np.flatnonzero(~np.isin(started["dev"] * TRANSACTIONS + started["transaction"], ended))
    started = {name: column[open_] for name, column in started.items()}
    none = np.zeros(len(open_), np.int64)
    others = Commits(
        tid=started["tid"],
        waker=started["tid"],
        bio_key=none,
        writer=none - 1,
        handed_ns=none - 1,
        identity=none,
        device_key=started["dev"],
        transaction=started["transaction"],
        since_ns=started["time_ns"],
        begin_ns=started["time_ns"],
        end_ns=none + NEVER,
        flushing_ns=none - 1,
        logging_ns=none - 1,
        store=none,
    )
    return Commits(**joined([commits, others]))


def commit_of(bios: Bios, root: Ints, commits: Commits, commit: Ints) -> Ints:
    """Of each bio the row of ``every_commit``. ``commit``: that of the window's, -1: of none."""
    begun = np.flatnonzero(commits.end_ns == NEVER)
    last = AsOf(commits.tid[begun], commits.begin_ns[begun]).at_or_before(bios.tid, bios.queue_ns)
    return np.where(commit >= 0, commit, at(begun, last)[root])


def handled(window: Window, commits: Commits, people: People) -> Ints:
    """Of each commit: whose handles changed what of it."""
    events = window.columns("jbd2_handles", "dev", "transaction", "subject_tid", "block_count")
    commit = AsOf(commits.device_key * TRANSACTIONS + commits.transaction, commits.begin_ns)
    found = commit.at_or_before(events["dev"] * TRANSACTIONS + events["transaction"],
                                events["time_ns"])  # fmt: skip
    late = at(commits.end_ns, found) < events["time_ns"]
    who = people.threads(events["subject_tid"], events["time_ns"])
    return people.crowds(len(commits), np.where(late, -1, found), who, events["block_count"])
