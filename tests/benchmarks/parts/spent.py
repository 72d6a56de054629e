# SPDX-License-Identifier: Apache-2.0
"""What two recorders, and programs that do nothing, took of the same writes; how that is told."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

RESAMPLED = 2000


@dataclass(frozen=True)
class Spent:
    """What one recorder took in one round: of each program ns and hits; of all, a write."""

    programs: dict[str, tuple[int, int]]
    bpf_ns: float
    recorder_ns: float
    bytes: float


def ratios(rounds: list[list[Spent]], of: Callable[[Spent], float]) -> list[float]:
    """New against old: of each two rounds, one in each order."""
    each = [of(new) / of(old) for old, new, *_ in rounds]
    return [math.sqrt(a * b) for a, b in zip(each[::2], each[1::2], strict=True)]


def ratios_above(rounds: list[list[Spent]]) -> list[float]:
    """The same of the BPF time above that of programs that do nothing."""
    each = [
        (new.bpf_ns - nothing.bpf_ns) / (old.bpf_ns - nothing.bpf_ns)
        for old, new, nothing in rounds
    ]
    return [math.sqrt(a * b) for a, b in zip(each[::2], each[1::2], strict=True)]


def told(found: list[float]) -> str:
    """The median and an interval of nine in ten for it, by drawing anew from what was found."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(found, k=len(found))) for _ in range(RESAMPLED))
    low, high = medians[RESAMPLED // 20], medians[-RESAMPLED // 20]
    return f"{statistics.median(found):.3f}   ({low:.3f} to {high:.3f}, {len(found)} pairs)"


def of_programs(
    before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Of each program, what it took between two looks: ns and hits."""
    found = {}
    for name, (ns, hits) in after.items():
        earlier_ns, earlier_hits = before.get(name, (0, 0))
        found[name] = ns - earlier_ns, hits - earlier_hits
    return found


def programs_told(rounds: list[list[Spent]], writes: int) -> Iterator[str]:
    """A line for each program that is hit once in twenty writes or more, the dearest first."""
    sums: list[dict[str, list[int]]] = [{}, {}, {}]
    for found in rounds:
        for one, total in zip(found, sums, strict=True):
            for name, (ns, hits) in one.programs.items():
                of_name = total.setdefault(name, [0, 0])
                of_name[0] += ns
                of_name[1] += hits
    count = len(rounds) * writes
    rows = {name: [total.get(name, [0, 0]) for total in sums] for name in {**sums[0], **sums[1]}}
    for name, times in sorted(rows.items(), key=lambda row: -row[1][0][0] - row[1][1][0]):
        if max(hits for _, hits in times) * 20 < count:
            continue
        a_write = " ".join(f"{ns / count:6.0f}" for ns, _ in times)
        hits_a_write = " ".join(f"{hits / count:6.2f}" for _, hits in times[:2])
        a_hit = " ".join(f"{ns / max(hits, 1):5.0f}" for ns, hits in times)
        yield f"  {a_write}  {hits_a_write}  {a_hit}  {name}"


def tell(method: str, rounds: list[list[Spent]], commit: str | None, writes: int) -> None:
    print(f"this recorder against {commit or 'itself'}: {method}")
    print(f"  BPF time a write         {told(ratios(rounds, lambda one: one.bpf_ns))}")
    print(f"  above that of nothing    {told(ratios_above(rounds))}")
    print(f"  recorder's CPU a write   {told(ratios(rounds, lambda one: one.recorder_ns))}")
    print(f"  bytes a write            {told(ratios(rounds, lambda one: one.bytes))}")
    print("  ns a write: old, new, nothing; hits a write: old, new; ns a hit: old, new, nothing")
    print("\n".join(programs_told(rounds, writes)))
