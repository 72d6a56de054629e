# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what each thread's handles changed in, whose the commits of a journal are out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import NEVER, AsOf, Ints, at, joined, one_of, overlapping, pair_key
from iostrata.stitch.bios import Bios
from iostrata.stitch.journal import Commits
from iostrata.stitch.people import People
from iostrata.stitch.requests import Requests
from iostrata.stitch.serving import LoopWork
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


def served(window: Window, requests: Requests, work: LoopWork) -> tuple[Ints, Ints]:
    """Of which of the window's events of handles that a loop device's worker had, and the requests
    that it served since the transaction before, of a device whose file is there."""
    events = window.columns("jbd2_handles", "dev", "transaction", "subject_tid")
    time, journal = events["time_ns"], events["dev"]
    # A transaction's are told one by one.
    transaction = journal * TRANSACTIONS + events["transaction"]
    first = AsOf(transaction, time).at_or_after(transaction, np.zeros(len(time), np.int64))
    since = at(time, AsOf(journal, time).at_or_before(journal, time[first] - 1))
    row, run = overlapping(events["subject_tid"], since, time, work.tid, work.begin_ns, work.end_ns)
    blocks = window.trace.facts.blocks.items()
    there = [(key, lower) for key, block in blocks for lower in block.lower_keys]
    loop, lower = np.array(there, np.int64).reshape(-1, 2).T
    on = one_of(pair_key(work.device_key[run], journal[row]), pair_key(loop, lower))
    row, run = row[on], run[on]
    one, request = overlapping(
        work.device_key[run], work.begin_ns[run], work.end_ns[run],
        requests.device_key, requests.issue_ns, requests.complete_ns,
    )  # fmt: skip
    return row[one], request


def handled(
    window: Window, commits: Commits, people: People, asked: tuple[Ints, Ints] | None = None
) -> Ints:
    """Of each commit: whose handles changed what of it. ``asked``: of which of the events loop
    devices' workers had (rows, as ``served`` has them), and who had asked for what they did."""
    events = window.columns("jbd2_handles", "dev", "transaction", "subject_tid", "block_count")
    commit = AsOf(commits.device_key * TRANSACTIONS + commits.transaction, commits.begin_ns)
    found = commit.at_or_before(events["dev"] * TRANSACTIONS + events["transaction"],
                                events["time_ns"])  # fmt: skip
    late = at(commits.end_ns, found) < events["time_ns"]
    found = np.where(late, -1, found)
    who = people.threads(events["subject_tid"], events["time_ns"])
    count = events["block_count"]
    if asked:
        row, asker = asked
        askers = np.bincount(row, minlength=len(who))
        found = np.concatenate([found, found[row]])
        who = np.concatenate([who, asker])
        count = np.concatenate([np.where(askers > 0, 0, count), count[row] / askers[row]])
    return people.crowds(len(commits), found, who, count)
