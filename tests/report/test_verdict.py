# SPDX-License-Identifier: Apache-2.0
"""The verdict: only what the rows prove, in the order of what matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replace_struct

from iostrata.analysis import analyse
from iostrata.attribute.summarise import summarise
from iostrata.layers import ROWS
from iostrata.model import Breakdown, Layer, NotObserved, Onset, Quality, WaitSite
from iostrata.recording import open_recording
from iostrata.report.verdict import DEVICE, sentences
from tests.attribute.test_tail import breakdown
from tests.report.test_golden import RECORDINGS

SEGMENT = {row.name: row.segment for row in ROWS}
COUNT = 200
SLOW = 4


def made(
    mean_us: Mapping[str, int],
    slow_us: Mapping[str, int] | None = None,
    residual_us: int = 0,
    slow_residual_us: int = 0,
) -> Breakdown:
    """All writes alike, and the last few with more in some rows."""
    names = dict.fromkeys([*mean_us, *(slow_us or {})])
    times = np.zeros((len(names), COUNT), np.int64)
    for number, name in enumerate(names):
        times[number] = mean_us.get(name, 0) * 1000
        times[number, -SLOW:] += (slow_us or {}).get(name, 0) * 1000
    residual = np.full(COUNT, residual_us * 1000, np.int64)
    residual[-SLOW:] += slow_residual_us * 1000
    layers = tuple(Layer(name, SEGMENT[name], "local", "") for name in names)
    slept = Quality(asleep_share=0.5)
    return replace(breakdown(times, residual), layers=layers, quality=slept)


def told(found: Breakdown) -> list[str]:
    return sentences(summarise(found))


RUN, DATA, FLUSH, START, JOURNAL = (
    "wakeup.runqueue", "device.data", "device.flush", "journal.start", "device.journal",
)  # fmt: skip


IN_DEVICE = "of the time is in the device."
SLOW_ONES = "of what the slow ones take longer"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (made({RUN: 83, DATA: 10, "fs": 7}),
         ["83% of the time is waiting for a CPU: not the device (10%)."]),
        (made({DATA: 30, FLUSH: 50, "fs": 20}),
         ["80% of the time is in the device, above all device.flush (50%)."]),
        (made({DATA: 90, "fs": 10}), [f"90% {IN_DEVICE}"]),
        # The device's part of a commit is a commit's, and no contrast to it.
        (made({START: 20, JOURNAL: 60, DATA: 20}), ["80% of the time is in journal commits."]),
        (made({"fs": 35, "syscall": 25, DATA: 40}),
         ["60% of the time is in the OS, above all fs (35%): not the device (40%)."]),
        # What that does below for itself is tied to no write.
        (made({"block.stacked": 60, DATA: 40}),
         ["60% of the time is in the OS: not the device (40%), unless it read or copied something "
          "there for itself that is not followed."]),
        # Nothing is said of a device that was not seen, or may not have been.
        (made({"unfollowed": 80, DATA: 20}), ["80% of the time is not followed."]),
        (made({"rpc.call": 10, RUN: 90}), ["90% of the time is waiting for a CPU."]),
        (made({RUN: 40, DATA: 35, "fs": 20, JOURNAL: 5}),
         ["No one place has half of the time: 40% waiting for a CPU, 35% in the device, "
          "20% in the OS."]),
        (made({DATA: 60}, residual_us=40),
         [f"60% {IN_DEVICE}", "40% is unattributed: no event explains it."]),
        (made({DATA: 4}, residual_us=96),
         ["96% is unattributed: no event explains it (--why tells what it slept in)."]),
        (made({DATA: 14, "fs": 26}, residual_us=60),
         ["60% is unattributed: no event explains it (--why tells what it slept in); "
          "26% in the OS, 14% in the device."]),
        (made({DATA: 100}, {JOURNAL: 200}),
         [f"96% {IN_DEVICE}", f"p99 is 3 x p50: all {SLOW_ONES} is in journal commits."]),
        (made({DATA: 100}, {RUN: 150, DATA: 120, START: 130}),
         [f"95% {IN_DEVICE}",
          f"p99 is 5 x p50: {SLOW_ONES}, 38% waiting for a CPU, 32% in journal commits, "
          "30% in the device."]),
        (made({DATA: 100}, {DATA: 50}, slow_residual_us=250),
         [f"95% {IN_DEVICE}", f"p99 is 4 x p50: 83% {SLOW_ONES} is unattributed."]),
        # Less than three times the median is no tail.
        (made({DATA: 100}, {JOURNAL: 190}), [f"96% {IN_DEVICE}"]),
    ],
)  # fmt: skip
def test_sentences(found: Breakdown, expected: Sequence[str]) -> None:
    assert told(found) == expected


def test_a_device_that_is_on_others_is_not_said_to_be_the_lowest() -> None:
    gaps = (
        NotObserved(
            "below loop7", "on which disk its file is (as one on btrfs) is not known", DEVICE
        ),
        NotObserved("block.Q2G to I2D", "only with --detail", "block.Q2D"),
    )
    for slow, where in ((DATA, "in the device; what is below loop7 was not seen"),
                        (RUN, "waiting for a CPU")):  # fmt: skip
        found = replace(made({slow: 90, "fs": 10}), quality=Quality(not_observed=gaps))
        assert told(found) == [f"90% of the time is {where}."]


def test_where_the_unattributed_time_was_slept_is_below_the_table() -> None:
    site = WaitSite("local", "request_wait_answer < fuse_simple_request", 96_000.0)
    found = replace(made({DATA: 4}, residual_us=96), quality=Quality(sites=(site,)))
    assert told(found)[0] == (
        "96% is unattributed: no event explains it (what it slept in is below the table)."
    )


def test_what_it_slept_in_is_offered_only_where_it_slept() -> None:
    """A request that waits for another one has no thread that sleeps."""
    found = replace(made({DATA: 4}, residual_us=96), quality=Quality(asleep_share=0.4))
    assert told(found)[0] == "96% is unattributed: no event explains it."


def test_who_has_asked_what_it_slept_in_is_not_told_to_ask() -> None:
    found = replace(made({DATA: 4}, residual_us=96), quality=Quality(stacks=True, asleep_share=1.0))
    assert told(found)[0] == "96% is unattributed: no event explains it."


@pytest.mark.parametrize(("share", "said"), [(0.09, False), (0.1, True), (0.393, True)])
def test_what_nobody_saw_end_is_said(share: float, said: bool) -> None:
    found = replace(made({DATA: 100}), quality=Quality(unseen_share=share))
    assert found.quality.doubtful == said
    text = "of the writes that ended are in no number: nobody saw them end (see what is left out"
    assert any(text in sentence for sentence in told(found)) == said


def test_what_may_be_wrong_says_so() -> None:
    found = replace(made({DATA: 100}), quality=Quality(lost={"local:block_rq_issue": 3}))
    assert told(found)[-1] == (
        "Events are missing, so this may be wrong: see the lines below the table."
    )


def test_no_time_no_verdict() -> None:
    assert told(made({DATA: 0})) == []


@given(st.dictionaries(st.sampled_from(sorted(SEGMENT)), st.integers(0, 10**6), min_size=1),
       st.integers(0, 10**6))  # fmt: skip
def test_causes_are_all_there_is(mean_us: dict[str, int], residual_us: int) -> None:
    table = summarise(made(mean_us, residual_us=residual_us)).overall
    if table.total.mean_ns:
        shares = sum(cause.share for cause in table.causes) + table.residual.share
        assert shares == pytest.approx(1)
    assert len({cause.name for cause in table.causes}) == len(table.causes)


@pytest.mark.parametrize("name", ["kvm_nfs", "nfs", "four_methods"])
def test_the_words_of_operators_add_up(name: str) -> None:
    found = analyse(open_recording(RECORDINGS / name))
    table = summarise(found).overall
    means = {one.name: one.figures.mean_ns for one in table.operators}
    assert bool(means) == (name == "kvm_nfs")
    if means:
        assert means["GAVG"] == pytest.approx(means["KAVG"] + means["DAVG"])
        assert 0 < means["QAVG"] < means["KAVG"]
        guest = sum(row.figures.mean_ns for row in table.segments if row.segment == "guest OS")
        rest = table.total.mean_ns - table.residual.mean_ns
        assert means["GAVG"] + guest == pytest.approx(rest)


@pytest.mark.parametrize(
    ("at_ns", "times", "expected"),
    [
        (500_000_000, 3.04, "From 0.5 s on writes take 3.0 x as long"),
        (12_340_000_000, 1.5, "From 12.3 s on writes take 1.5 x as long"),
        (500_000_000, 1 / 29, "From 0.5 s on writes are 29.0 x as fast"),
        (500_000_000, 1 / 1.5, "From 0.5 s on writes are 1.5 x as fast"),
        (49_000_000, 1 / 400, "From 49.0 ms on writes are 400.0 x as fast"),
        (50_100_000, 3, "From 0.1 s on writes take 3.0 x as long"),
    ],
)
def test_an_onset_is_told_in_numbers_that_say_something(
    at_ns: int, times: float, expected: str
) -> None:
    summary = replace_struct(summarise(made({DATA: 60})), onset=Onset(at_ns, times, DATA, 0.9))
    assert f"{expected}: 90% of the difference is {DATA}." in sentences(summary)
