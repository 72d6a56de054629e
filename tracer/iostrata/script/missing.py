# SPDX-License-Identifier: Apache-2.0
"""The script stage: the numbers of lines in, which of them are not there, and when, out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from iostrata.columns import Ints


@dataclass(frozen=True)
class Missing:
    """``refused``: by CPU, when a line after some that are missing came, and how many those are.

    ``last``: by CPU, how many are missing in all, the last ones too.
    """

    refused: Mapping[int, list[tuple[int, int]]]
    last: Mapping[int, int]

    @property
    def count(self) -> int:
        return sum(self.last.values())

    def so_far(self, end_ns: int) -> dict[str, list[int]]:
        """Columns of events that say how many were lost until then, by CPU."""
        rows = []
        for cpu, total in sorted(self.last.items()):
            lost = 0
            for time_ns, count in self.refused.get(cpu, ()):
                lost += count
                rows.append((time_ns, cpu, lost))
            if total > lost:
                rows.append((end_ns, cpu, total))
        return {
            name: [row[place] for row in rows]
            for place, name in enumerate(("time_ns", "cpu", "lost_count"))
        }


def missing_of(cpu: Ints, number: Ints, time_ns: Ints, totals: Mapping[int, int]) -> Missing:
    """Lines are numbered from 0 on each CPU; ``totals``: how many those were, if that is known.

    A number can come twice, as an interrupt may come between reading it and counting on.
    """
    order = np.lexsort((number, cpu))
    cpu, number, time_ns = cpu[order], number[order], time_ns[order]
    first = np.diff(cpu, prepend=-1) != 0
    before = np.where(first, -1, np.roll(number, 1))
    gap = np.maximum(number - before - 1, 0)
    refused: dict[int, list[tuple[int, int]]] = {}
    for row in np.flatnonzero(gap).tolist():
        refused.setdefault(int(cpu[row]), []).append((int(time_ns[row]), int(gap[row])))
    last = {each: sum(count for _, count in rows) for each, rows in refused.items()}
    ends = np.flatnonzero(np.append(first[1:], True)) if len(cpu) else np.zeros(0, np.int64)
    seen = dict(zip(cpu[ends].tolist(), (number[ends] + 1).tolist(), strict=True))
    for each, total in totals.items():
        if total > seen.get(each, 0):
            last[each] = last.get(each, 0) + total - seen.get(each, 0)
    return Missing({each: sorted(rows) for each, rows in refused.items()}, last)
