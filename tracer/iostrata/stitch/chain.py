# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: waits of a window in, what they come to out: as ``Wakers`` has it, by C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import AsOf, Containing, Ints
from iostrata.layers import RANK
from iostrata.stitch.bios import Bios
from iostrata.stitch.endings import SOON_NS, Endings
from iostrata.stitch.kinds import Kinds
from iostrata.stitch.turns import Numbers
from iostrata.stitch.wakeup import Sleeps
from iostrata.trace.layout import (
    THREAD_HELPER,
    THREAD_JOURNAL,
    THREAD_WORKER,
    WAKE_INTERRUPT,
    WAKE_THREAD,
    WAKE_TIMER,
    WAKE_UNKNOWN,
)

FOLLOWED: Final = 1024
"""How often a thread is followed back to an earlier sleep of its own or of its waker's: as many
threads may queue for one lock, each of which the next one lets go."""

CONTEXTS: Final = (WAKE_UNKNOWN, WAKE_THREAD, WAKE_INTERRUPT, WAKE_TIMER)
KINDS: Final = (THREAD_JOURNAL, THREAD_WORKER, THREAD_HELPER)
RANKS: Final = tuple(
    RANK[name] for name in ("pause", "wakeup.interrupt", "throttle.io", "lock", "wakeup.runqueue",
                            "throttle.cpu", "wakeup.worker", "block.Q2G")
)  # fmt: skip
NO_LOOKUP: Final = (0,) * 8
NO_OWN: Final = (0,) * 3
NO_DEEDS: Final = 5 * NO_LOOKUP + 4 * (0,)
"""Words of what is not known then: five lookups, three columns of theirs and one of the calls."""

Word = NDArray[Any] | int


class Deeds(NamedTuple):
    """What tells of threads: what was completed on them, sleeps that they woke from, and calls."""

    on_thread: native.Lookup
    awake: native.Lookup
    call_begin_ns: Ints
    calls: Containing


@dataclass(frozen=True, eq=False)
class Chain:
    """What ``Wakers`` knows. ``endings_by``: in the order of ``struct chain``."""

    sleeps: Sleeps
    asking: Ints
    chosen: NDArray[np.bool_]
    endings: Endings
    bios: Bios
    asker: Ints
    disk_of_bio: Ints
    device_of_piece: Ints
    may_be: NDArray[np.bool_]
    numbers: Numbers
    kinds: Kinds
    endings_by: Sequence[native.Lookup]
    resumed: native.Lookup
    commits_by: AsOf
    commit_end_ns: Ints

    def follow(
        self,
        waits: Sequence[Ints],
        ended: NDArray[np.bool_],
        own: native.Own | None,
        deeds: Deeds | None,
    ) -> native.Followed | None:
        """``waits``: columns of ``Waits``; ``ended``: of each sleep; ``own``: endings by owner.
        None: for that, what is None has to be known."""
        parts = [*self._constants(), *self._columns(), *self._tables(own, deeds)]
        parts = [_long(part) if isinstance(part, np.ndarray) else part for part in parts]
        caused = np.zeros(len(ended), np.int64)
        found = native.follow_wakers(native.words(*parts), waits, caused)
        if found:
            ended |= caused > 0
        return found

    def _constants(self) -> Sequence[Word]:
        numbers = self.numbers
        of = (numbers.bio, numbers.sleep, numbers.thread)
        return (*CONTEXTS, *KINDS, *RANKS, *of, FOLLOWED, SOON_NS)

    def _columns(self) -> Sequence[Word]:
        sleeps, endings, bios = self.sleeps, self.endings, self.bios
        return (
            len(sleeps), sleeps.tid, sleeps.off_ns, sleeps.wake_ns, sleeps.on_ns, sleeps.waker,
            sleeps.waker_cpu, sleeps.context, sleeps.state, sleeps.throttled_ns, sleeps.other_work,
            sleeps.waker_other_work, sleeps.met, self.asking, self.chosen,
            len(endings.tid), endings.tid, endings.time_ns, endings.since_ns, endings.bio,
            endings.call, endings.commit,
            len(bios), bios.queue_ns, bios.tid, bios.request, bios.held, self.asker,
            self.disk_of_bio,
            len(self.device_of_piece), self.device_of_piece, *self.may_be.shape, self.may_be,
        )  # fmt: skip

    def _tables(self, own: native.Own | None, deeds: Deeds | None) -> Sequence[Word]:
        kinds = self.kinds
        words = [word for lookup in (*self.endings_by, self.resumed) for word in lookup.words]
        words += [*kinds.told.lookup.words, kinds.kinds, *(own or NO_OWN)]
        if deeds is None:
            return [*words, *NO_DEEDS]
        tables = (
            (kinds.forgotten, kinds.forgotten_at),
            (self.commits_by, self.commit_end_ns),
            (deeds.calls.begins, deeds.calls.ends),
        )
        words += [*deeds.on_thread.words, *deeds.awake.words]
        for rows, value in tables:
            words += [*rows.lookup.words, value]
        return [*words, deeds.call_begin_ns]


def _long(part: NDArray[Any]) -> NDArray[Any]:
    """As C reads columns; those of a lookup's keys are as it has made them."""
    return part if part.dtype == np.int32 else np.ascontiguousarray(part, np.int64)
