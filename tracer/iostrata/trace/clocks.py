# SPDX-License-Identifier: Apache-2.0
"""A machine's facts about clocks: the text files beside its trace to what ties it to others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from iostrata.model import Ints
from iostrata.trace.cells import integer
from iostrata.trace.times import LATEST_NS

ABSENT = "-"
EXCHANGE_COLUMNS = "sent_ns\tremote_ns\treceived_ns"
UNSCALED_BITS = (32, 48)
"""KVM's tsc ratios are fixed-point numbers near 1: 32 bits of fraction on AMD, 48 on Intel."""
RATIO_RANGE_BITS = 6


@dataclass(frozen=True)
class TscOffset:
    """One virtual CPU of one of this host's VMMs: guest's tsc = host's tsc * ratio + offset."""

    pid: int
    vcpu: int
    offset: int
    ratio: Fraction = Fraction(1)


@dataclass(frozen=True, eq=False)
class Exchange:
    """The coordinator asked this machine's clock, one row a question, int64.

    ``sent_ns``, ``received_ns``: the coordinator's CLOCK_MONOTONIC; ``remote_ns``:
    this machine's, read between them.
    """

    sent_ns: Ints
    remote_ns: Ints
    received_ns: Ints

    def __len__(self) -> int:
        return len(self.sent_ns)


def parse_tsc(line: str) -> TscOffset:
    """``pid vcpu tsc_offset scaling_ratio``; ValueError for anything else."""
    pid, vcpu, offset, ratio = line.split()
    return TscOffset(integer(pid, 32), integer(vcpu, 32), integer(offset), parse_ratio(ratio))


def parse_ratio(text: str) -> Fraction:
    if text in (ABSENT, "0", "1"):
        return Fraction(1)
    for bits in UNSCALED_BITS:
        ratio = integer(text, 64)
        if abs(ratio.bit_length() - 1 - bits) <= RATIO_RANGE_BITS:
            return Fraction(ratio, 1 << bits)
    raise ValueError(text)


def parse_exchange(line: str) -> tuple[int, int, int]:
    """One row of EXCHANGE_COLUMNS; ValueError for anything else."""
    sent, remote, received = map(integer, line.split())
    if not 0 <= sent <= received <= LATEST_NS or not 0 <= remote <= LATEST_NS:
        raise ValueError(line)
    return sent, remote, received


def exchange_of(rows: Iterable[tuple[int, int, int]]) -> Exchange:
    columns = np.array(list(rows), np.int64).reshape(-1, 3)
    return Exchange(*columns.T)
