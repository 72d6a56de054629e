# SPDX-License-Identifier: Apache-2.0
"""Guests' and hosts' counters against clocks whose relation is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iostrata.clock.tsc import offers_of_tsc
from iostrata.trace.read import Trace

from .machines import BOOTED_CYCLES, READING_NS, sampled
from .worlds import HOUR_NS, Clock

GUEST = Clock(40_000_000_000, 12.5)
HOST = Clock(30 * HOUR_NS, -3.0)
TIMES = np.arange(0, 31e9, 1e9)
LATER = np.arange(0.3e9, 30e9, 1e9)
OFFSET = -BOOTED_CYCLES + 123_456


def error_ns(guest: Trace, host: Trace) -> tuple[int, int]:
    (offer,) = offers_of_tsc(guest, host)
    true_ns = np.linspace(LATER[0], LATER[-1], 1000)
    return int(np.abs(offer.line(HOST(true_ns)) - GUEST(true_ns)).max()), offer.bound_ns


def test_truth_is_within_the_bound(tmp_path: Path) -> None:
    host = sampled(tmp_path / "h", HOST, TIMES, facts={"tsc": f"100 0 {OFFSET} 4294967296\n"})
    guest = sampled(tmp_path / "g", GUEST, LATER, offset=OFFSET)
    error, bound = error_ns(guest, host)
    assert error <= bound <= 2 * READING_NS


@pytest.mark.parametrize("bits", [32, 48])
def test_a_scaled_counter(tmp_path: Path, bits: int) -> None:
    """A guest that was migrated from a machine with a counter of other speed."""
    offset = OFFSET + int(BOOTED_CYCLES * 0.2)
    ratio = 1.25
    facts = {"tsc": f"100 0 {offset} {int(ratio * 2**bits)}\n"}
    host = sampled(tmp_path / "h", HOST, TIMES, facts=facts)
    guest = sampled(tmp_path / "g", GUEST, LATER, offset=offset, ratio=ratio)
    error, bound = error_ns(guest, host)
    assert error <= bound <= 2 * READING_NS


def test_an_interrupted_sample_is_not_used(tmp_path: Path) -> None:
    host = sampled(
        tmp_path / "h", HOST, TIMES, facts={"tsc": f"9 0 {OFFSET} -\n"}, interrupted=(3, 9)
    )
    guest = sampled(tmp_path / "g", GUEST, LATER, offset=OFFSET, interrupted=(7,))
    error, bound = error_ns(guest, host)
    assert error <= bound <= 2 * READING_NS


def test_virtual_cpus_that_differ_widen_the_bound(tmp_path: Path) -> None:
    facts = {"tsc": f"100 0 {OFFSET} -\n100 1 {OFFSET + 24_000} -\n"}
    host = sampled(tmp_path / "h", HOST, TIMES, facts=facts)
    error, bound = error_ns(sampled(tmp_path / "g", GUEST, LATER, offset=OFFSET), host)
    assert error <= bound
    assert 10_000 <= bound <= 10_000 + 2 * READING_NS


@pytest.mark.parametrize("told", [(0, 1), (1, 0)])
def test_a_guest_that_was_reset_has_another_counter_from_then_on(
    told: tuple[int, int], tmp_path: Path
) -> None:
    """What the host says at the begin and at the end of the recording. The guest's own recorder
    ended as it was reset, or began behind that."""
    offsets = (OFFSET, OFFSET - 40 * 2_600_000_000)
    lines = [f"100 {vcpu} {offsets[which]} -\n" for which in told for vcpu in range(2)]
    host = sampled(tmp_path / "h", HOST, TIMES, facts={"tsc": "".join(lines)})
    error, bound = error_ns(sampled(tmp_path / "g", GUEST, LATER, offset=OFFSET), host)
    assert error <= bound <= 2 * READING_NS


def test_each_machine_of_the_host_is_offered(tmp_path: Path) -> None:
    facts = {"tsc": f"100 0 {OFFSET} -\n100 1 {OFFSET} -\n200 0 {OFFSET + 24_000_000} -\n"}
    host = sampled(tmp_path / "h", HOST, TIMES, facts=facts)
    guest = sampled(tmp_path / "g", GUEST, LATER, offset=OFFSET)
    first, second = offers_of_tsc(guest, host)
    at = HOST(TIMES)
    assert np.abs(first.line(at) - second.line(at)).min() > 9_900_000


def test_without_what_it_takes_there_is_no_offer(tmp_path: Path) -> None:
    host = sampled(tmp_path / "h", HOST, TIMES, facts={"tsc": f"100 0 {OFFSET} -\n"})
    guest = sampled(tmp_path / "g", GUEST, LATER, offset=OFFSET)
    other = sampled(tmp_path / "o", GUEST, LATER + 3600e9, offset=OFFSET)
    silent = sampled(tmp_path / "s", GUEST, LATER[:0], offset=OFFSET)
    assert offers_of_tsc(guest, host)
    assert not offers_of_tsc(other, host)
    assert not offers_of_tsc(silent, host)
    assert not offers_of_tsc(guest, replace(host, facts=guest.facts))
