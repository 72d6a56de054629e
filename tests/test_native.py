# SPDX-License-Identifier: Apache-2.0
"""What C does against its twins: the same on anything, and nothing outside of its columns."""

from __future__ import annotations

import _ctypes
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iostrata import native
from iostrata.analysis import analyse
from iostrata.attribute import attribute, share, summarise, sweep
from iostrata.attribute.figures import ranked
from iostrata.columns import AsOf, among, coded, distinct, in_order, order_of, overlapping
from iostrata.layers import RANK
from iostrata.model import Op
from iostrata.recording import open_recording
from iostrata.report import json
from iostrata.stitch import SpanList, Spans
from iostrata.stitch.durability import Made, durability
from iostrata.stitch.spans import Edges, follow, seen_as
from iostrata.trace import Trace, layout, read_trace
from iostrata.trace.packet import CRC_AT
from tests.trace.random_events import all_of, counts, packet_sizes, random_events, seeds, write

ROOT: Final = Path(__file__).parents[1]
RECORDINGS: Final = [
    place for folder in ("recordings", "recordings_of_reads")
    for place in sorted((ROOT / "tests" / folder).iterdir()) if place.is_dir()
]  # fmt: skip
NOTHING: Final = np.zeros(0, np.int64)
EVENT: Final = f"V{layout.EVENT_BYTES}"
PT_DYNAMIC: Final = 2
DT_NEEDED: Final = 1
DT_SYMTAB: Final = 6
DT_VERNEED: Final = 0x6FFFFFFE

pytestmark = pytest.mark.skipif(
    native.LIBRARY is None, reason="libnative.so was not built here: make native"
)

near = st.integers(-5, 5)
anything = near | st.integers(-(2**63), 2**63 - 1)
have = st.lists(st.tuples(anything, near | st.integers(-(2**61), 2**61)), max_size=30)
rows = st.lists(st.tuples(anything, anything), max_size=30)


@contextmanager
def twin() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "LIBRARY", None)
        yield


def columns(values: Sequence[tuple[int, ...]], width: int) -> list[np.ndarray]:
    return list(np.array(values, np.int64).reshape(-1, width).T)


def few_keys(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pointers of one kind, and times with ties; mostly, but not always, in order."""
    random = np.random.default_rng(seed)
    keys = -0x7780_0000_0000 + random.integers(0, max(count // 3, 1), count) * 256
    times = np.sort(random.integers(0, 2 * count + 1, count))
    late = random.integers(0, max(count, 1), count // 50)
    times[late] = random.permutation(times[late])
    return keys, times


def the_same_rows(have: list[np.ndarray], ask: list[np.ndarray]) -> None:
    table = AsOf(*have)
    until = have[1][::-1] + 3

    def looks_of(table: AsOf) -> Sequence[Callable[..., np.ndarray]]:
        within = partial(table.within, until=until)
        return table.at_or_before, table.at_or_after, table.at_or_nearest, within

    found = [look(*ask) for look in looks_of(table)]
    following = table.following()
    with twin():
        other = AsOf(*have)
        looks = looks_of(other)
        for one, look in zip(found, looks, strict=True):
            assert one.tolist() == look(*ask).tolist()
        assert following.tolist() == other.following().tolist()


def test_where_arrays_are_is_what_numpy_says() -> None:
    table = np.arange(24, dtype=np.int32).reshape(4, 6)
    fixed = np.arange(5)
    fixed.flags.writeable = False
    one = np.broadcast_to(np.int64(7), 9)
    arrays = (table, table[2:, 1:], table[::-1], table[:0], fixed, one, np.zeros(0, np.bool_))
    assert native.words(3, *arrays).tolist() == [3, *(array.ctypes.data for array in arrays)]


@given(have, rows)
def test_rows_by_key_and_time(have: list[tuple[int, int]], ask: list[tuple[int, int]]) -> None:
    the_same_rows(columns(have, 2), columns(ask, 2))


@given(seeds, st.integers(0, 3000), st.integers(0, 3000))
def test_many_rows_by_key_and_time(seed: int, have: int, ask: int) -> None:
    the_same_rows(list(few_keys(seed, have)), list(few_keys(seed + 1, ask)))


@given(seeds, st.integers(1, 3000))
def test_few_of_many_rows_are_looked_up_by_key(seed: int, have: int) -> None:
    keys, times = few_keys(seed, have)
    table, other = AsOf(keys, times), AsOf(keys, times)
    at = times[: have // 2] + np.random.default_rng(seed).integers(-1, 2, have // 2)
    asked = few_keys(seed + 1, have)[0][: len(at)]
    for key in (keys[: len(at)], asked):
        found = [table.at_or_before(key, at), table.at_or_after(key, at)]
        found.append(table.within(key, at, times[::-1]))
        with twin():
            expected = [other.at_or_before(key, at), other.at_or_after(key, at)]
            expected.append(other.within(key, at, times[::-1]))
        assert [rows.tolist() for rows in found] == [rows.tolist() for rows in expected]
    # As soon as it is done again.
    assert ("lookup" in vars(table)) == (len(at) > 0)


@given(st.lists(st.integers(-40, 40), min_size=1), anything)
def test_coded(values: list[int], least: int) -> None:
    some = np.array(values) + max(min(least, 2**62), -(2**62))
    found = [column.tolist() for column in coded(some)]
    with twin():
        assert found == [column.tolist() for column in coded(some)]


@given(
    st.lists(anything) | st.lists(st.integers(0, 3), max_size=500), st.integers(0, 200), anything
)
def test_different_values(values: list[int], count: int, value: int) -> None:
    for some in (np.array(values, np.int64), np.array(values + [value] * count, np.int64)):
        found = distinct(some)
        assert found.dtype == np.int64
        assert found.tolist() == sorted(set(some.tolist()))
        with twin():
            assert found.tolist() == distinct(some).tolist()


@given(st.lists(anything), st.integers(0, 6))
def test_marked(some: list[int], count: int) -> None:
    found = native.marked(np.array(some, np.int64), count)
    assert found.tolist() == [number in some for number in range(count)]


def the_same_order(keys: list[np.ndarray]) -> None:
    expected = np.lexsort(keys[::-1]).tolist()
    assert order_of(*keys).tolist() == expected
    values = [in_order(key).tolist() for key in keys]
    assert values == [np.sort(key).tolist() for key in keys]
    with twin():
        assert order_of(*keys).tolist() == expected
        assert values == [in_order(key).tolist() for key in keys]


@given(st.lists(st.tuples(anything, near, anything), max_size=40))
def test_order(some: list[tuple[int, int, int]]) -> None:
    the_same_order(columns(some, 3))


@given(seeds, st.integers(0, 3000), st.sampled_from([1, 40, 1 << 20, 1 << 62]))
def test_order_of_many(seed: int, count: int, most: int) -> None:
    random = np.random.default_rng(seed)
    keys, times = few_keys(seed, count)
    the_same_order([random.integers(-most, most, count), keys])
    the_same_order([times])
    the_same_order([random.integers(0, 3, count), times])


intervals = st.lists(st.tuples(near, near, near | anything), max_size=40)


@given(intervals, intervals, st.sampled_from([None, 1, 2, 16]))
def test_overlapping(
    mine: list[tuple[int, int, int]], theirs: list[tuple[int, int, int]], most: int | None
) -> None:
    one, begin, end = columns(mine, 3)
    other, other_begin, other_end = columns(theirs, 3)
    found = overlapping(one, begin, end, other, other_begin, other_end, most)
    with twin():
        expected = overlapping(one, begin, end, other, other_begin, other_end, most)
    assert [column.tolist() for column in found] == [column.tolist() for column in expected]


ranks = st.integers(0, len(RANK) - 1)


@given(
    st.lists(st.tuples(near, ranks, near | anything, near | anything)),
    st.lists(st.tuples(near, near, near | anything, near | anything, st.integers(-1, 2))),
    st.sampled_from(["seen", "as they are", "lifted"]),
)
def test_follow(some: list[tuple[int, ...]], led: list[tuple[int, ...]], how: str) -> None:
    owner, rank, begin, end = columns(some, 4)
    *edges, kind = columns(led, 5)
    seen = seen_as(kind, lambda ranks, kind: (ranks + kind) % len(RANK)) if how == "seen" else None
    ranks = rank << 20 if how == "lifted" else rank.astype(np.int16)
    own = Spans(owner, ranks, begin, end, np.arange(len(owner)))
    found = follow(own, Edges(*edges), seen)
    with twin():
        expected = follow(own, Edges(*edges), seen)
    if how == "lifted":
        assert {*expected.rank.tolist()} <= {*ranks.tolist()}
    for name, column in vars(expected).items():
        assert getattr(found, name).tolist() == column.tolist(), name


@given(
    st.lists(st.tuples(near, st.integers(0, 3), near | anything, near, near), max_size=40),
    st.integers(1, 4),
)
def test_once(some: list[tuple[int, ...]], times: int) -> None:
    owner, rank, begin, end, of = columns(some * times, 5)
    spans = Spans(owner, rank.astype(np.int16), begin, end, of)
    found = [column.tolist() for column in vars(spans.once()).values()]
    with twin():
        expected = [column.tolist() for column in vars(spans.once()).values()]
    assert found == expected
    assert len(found[0]) == len(set(some))


@given(
    st.lists(st.tuples(near | anything, ranks, near | anything, near | anything, near)),
    st.booleans(),
    st.booleans(),
)
def test_spans_that_are_kept(some: list[tuple[int, ...]], alike: bool, untold: bool) -> None:
    owner, rank, begin, end, of = columns(some, 5)

    def kept() -> list[list[int]]:
        spans = SpanList()
        spans.add(
            owner, "blocked" if alike else rank.astype(np.int16), begin, end,
            None if untold else of,
        )  # fmt: skip
        return [column.tolist() for column in vars(spans.collect()).values()]

    found = kept()
    with twin():
        expected = kept()
    assert found == expected
    assert len(found[0]) == np.count_nonzero((owner >= 0) & (begin < end))


spans = st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 70), near, near | anything))
long = st.lists(st.tuples(st.integers(0, 1), st.integers(-1, 5000), near, st.integers(0, 9)),
                min_size=80, max_size=300)  # fmt: skip


@given(spans | long, st.lists(st.tuples(near, st.integers(0, 9)), min_size=5, max_size=5), seeds)
def test_sweep(some: list[tuple[int, ...]], pieces: list[tuple[int, int]], seed: int) -> None:
    owner, rank, begin, end = columns(some, 4)
    first, took = columns(pieces, 2)
    own = Spans(owner, rank.astype(np.int16), begin, np.clip(end, -(2**60), 2**60), owner)
    held, other = sweep(own, first, first + took), None
    with twin():
        other = sweep(own, first, first + took)
    assert held.ranks.tolist() == other.ranks.tolist()
    assert (held.until_ns > held.since_ns).all()
    kept = other.until_ns > other.since_ns
    for name in ("level", "owner", "since_ns", "until_ns"):
        assert getattr(held, name).tolist() == getattr(other, name)[kept].tolist()
    random = np.random.default_rng(seed)
    for wanted in (None, random.random(len(held.ranks)) < random.random()):
        ours = attribute(held, len(pieces), wanted)
        with twin():
            theirs = attribute(other, len(pieces), wanted)
        for name in vars(ours):
            assert getattr(ours, name).tolist() == getattr(theirs, name).tolist()


@given(spans | long, st.lists(st.tuples(near, st.integers(0, 9)), min_size=5, max_size=5), seeds)
def test_share(some: list[tuple[int, ...]], pieces: list[tuple[int, int]], seed: int) -> None:
    owner, rank, begin, end = columns(some, 4)
    first, took = columns(pieces, 2)
    rank = np.maximum(rank, 0).astype(np.int32)
    own = Spans(owner, rank, begin, np.clip(end, -(2**60), 2**60), owner)
    random = np.random.default_rng(seed)
    kept = random.random(5001) < random.random()
    place, write = random.integers(0, random.integers(1, 9), 5001), np.array([1, -1, 0, 1, 2])

    def told(ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return place[ranks], kept[ranks]

    found = share(own, (first, first + took), told, write, 3)
    with twin():
        expected = share(own, (first, first + took), told, write, 3)
    assert found.places.tolist() == expected.places.tolist()
    assert found.time_ns.tolist() == expected.time_ns.tolist()
    assert found.held.ranks.tolist() == expected.held.ranks.tolist()
    some_time = expected.held.until_ns > expected.held.since_ns
    for ours, theirs in zip(found.held.stretches, expected.held.stretches, strict=True):
        assert ours.tolist() == theirs[some_time].tolist()


@given(seeds, st.integers(0, 1000), st.integers(0, 2**32 - 1))
def test_checksum(seed: int, count: int, before: int) -> None:
    data = np.random.default_rng(seed).integers(0, 256, count + 1).astype(np.uint8)
    # Wherever it begins.
    for some in (data, data[1:]):
        assert native.crc32(some, before) == zlib.crc32(some.data, before)


@given(st.lists(anything, min_size=1, max_size=60), seeds)
def test_places(some: list[int], seed: int) -> None:
    values = np.array(some)
    places = np.random.default_rng(seed).integers(0, len(some), 4).tolist()
    expected = np.sort(values)[places].tolist()
    assert ranked(values, places) == expected
    with twin():
        assert ranked(values, places) == expected


@given(seeds, st.integers(1, 3000), st.sampled_from([1, 3000, 1 << 20, 1 << 62]))
def test_places_of_many(seed: int, count: int, most: int) -> None:
    values = np.random.default_rng(seed).integers(-most, most, count)
    assert ranked(values, range(count)) == np.sort(values).tolist()


@given(st.lists(anything, unique=True), st.lists(anything))
def test_among(some: list[int], others: list[int]) -> None:
    values, many = np.array(sorted(some), np.int64), np.array(others, np.int64)
    with twin():
        expected = among(values, many).tolist()
    assert native.among(values, many).tolist() == expected == [one in others for one in values]


numbered = st.integers(0, 3) | st.integers(2**32 - 4, 2**32 - 2)
times = near | st.integers(-(2**61), 2**61)
agents = st.integers(-1, 2)
scopes = st.sampled_from([[0], [1], [2], [0, 2], [0, 1, 2]])
writes = st.lists(st.tuples(times, agents, numbered, numbered, near, near), max_size=40)
syncs = st.lists(st.tuples(times, agents, numbered, numbered, near, st.integers(0, 6)), max_size=40)


@given(writes, syncs, scopes)
def test_durability(
    some: list[tuple[int, ...]], others: list[tuple[int, ...]], kinds: list[int]
) -> None:
    effect, agent, device, file, offset, size = (
        np.append(*pair) for pair in zip(columns(some, 6), columns(others, 6), strict=True)
    )
    first, count = len(some), len(effect)
    scope = np.array(kinds)[size % len(kinds)]
    end = effect + size * (np.arange(count) >= first)
    made = Made(effect, end, agent, device, file, offset, size, scope.astype(np.int8))
    rows = np.random.default_rng(count).permutation(count)
    chosen = made, rows[rows < first], rows[rows >= first]
    found = durability(*chosen)
    with twin():
        expected = durability(*chosen)
    for name, column in vars(expected).items():
        assert getattr(found, name).tolist() == column.tolist()


def test_a_sync_of_no_known_scope_and_a_row_of_nothing_are_refused() -> None:
    one, scope = np.zeros(1, np.int64), np.zeros(1, np.int8)
    for wrong in (-1, 3):
        with pytest.raises(IndexError):
            native.durable([*[one] * 7, scope + np.int8(wrong)], one, one, np.array([1, 0, 0]))
    with pytest.raises(IndexError):
        native.durable([*[one] * 7, scope], one, one, np.array([0, 1, 0]))
    for rows in ((one + 1, one), (one, one - 2)):
        with pytest.raises(IndexError):
            native.durable([*[one] * 7, scope], *rows, np.array([1, 0, 0]))


def of_trace(trace: Trace) -> list[Any]:
    """All that reading comes to, of any part of it."""
    events = {name: all_of(points).tobytes() for name, points in trace.points.items()}
    numbers = {
        name: [column.tolist() for column in points.integers(*fields, begin=1).values()]
        for name, points in trace.points.items()
        for fields in [[f for f in points.fields if points.dtype[f].kind in "iu"]]
    }
    found = (trace.damage, trace.unknown, trace.lost_by_point, trace.event_count)
    return [events, numbers, *found, [stream.gaps for stream in trace.streams]]


@settings(max_examples=50)
@given(seeds, counts, packet_sizes, st.lists(st.tuples(seeds, st.integers(0, 255)), max_size=3))
def test_reading(
    seed: int, counts: dict[str, int], packet_events: int, flips: list[tuple[int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = write(Path(name), random_events(seed, counts), packet_events)
        paths = [path for path in sorted(directory.iterdir()) if path.name != "metadata"]
        for place, value in flips:
            path = paths[place % len(paths)]
            data = bytearray(path.read_bytes() if path.is_file() else b"")
            if data:
                data[place % len(data)] = value
                path.write_bytes(data)
        with pytest.MonkeyPatch.context() as patch:
            # What is wrong in a packet is told by its checksum first.
            patch.setattr("iostrata.trace.walk.checksum", checksum_told)
            # What few events come to is kept; these are many.
            patch.setattr("iostrata.trace.points.FEW_EVENTS", 0)
            found = of_trace(read_trace(directory))
            with twin():
                assert found == of_trace(read_trace(directory))


def checksum_told(data: bytes, at: int, size: int) -> int:
    told: int = struct.unpack_from("<I", data, at + CRC_AT)[0]
    return told


@pytest.mark.parametrize("place", RECORDINGS, ids=lambda place: place.name)
def test_real_recordings(place: Path) -> None:
    op = Op.SYNC
    if place.parent.name == "recordings_of_reads":
        op = Op.DIRECT if place.name.endswith("direct") else Op.READ
    ours = json.render(summarise(analyse(open_recording(place), op)))
    with twin():
        theirs = json.render(summarise(analyse(open_recording(place), op)))
    assert ours == theirs


def test_what_leads_nowhere_is_refused() -> None:
    one, none = np.zeros(1, np.int64), np.zeros(0, np.int64)
    slot, event = np.zeros(1, np.uint32), np.zeros(1, EVENT)
    numbers, table = native.Numbers(one, one + 8), np.zeros((1, 1), np.int64)
    away = np.array([1 << 40])
    told, noted = native.Told.of({}, 0), native.Noted({})
    for rows in (away, -away, one + 1, one - 1):
        with pytest.raises(IndexError):
            native.as_of_before(one, one, rows, one, one, None)
        with pytest.raises(IndexError):
            native.as_of_after(one, one, rows, one, one)
        with pytest.raises(IndexError):
            native.next_of(one, rows)
        with pytest.raises(IndexError):
            native.Lookup.of(one, one, rows)
        with pytest.raises(IndexError):
            native.Ranked.of(rows, one, (one, one + 1), (one, one + 1))
        with pytest.raises(IndexError):
            native.attribute((rows, one, one, one), one > 0, 1)
        with pytest.raises(IndexError):
            native.attribute((one, rows, one, one), one > 0, 1)
        ranked_spans = native.Ranked.of(one, one, (one, one + 1), (one, one + 1))
        assert ranked_spans is not None
        for level, piece in ((rows, one), (one, rows)):
            if piece[0] != -1:
                with pytest.raises(IndexError):
                    native.sweep(ranked_spans, one > 0, native.Sums(level, piece, table))
        with pytest.raises(IndexError):
            native.overlap((one, one, one), rows, (one, one, one), None, None)
        with pytest.raises(IndexError):
            native.overlap((one, one, one), None, (one, one, one), rows, None)
        with pytest.raises(IndexError):
            native.order_by(one, rows.copy())
        seen = np.zeros((1, 1), np.int16)
        own, led = (seen[0], one, one + 1, one), (one, one + 1, one, one, one + 1)
        assert len(native.follow(own, led, (seen, one))[0]) == 1
        for some_spans, edges, row in (
            ((np.where(rows > 1, 2, -1), *own[1:]), led, one),
            (own, (rows, *led[1:]), one),
            (own, (one, np.where(rows > 1, 2, -1), *led[2:]), one),
            (own, led, rows),
        ):
            with pytest.raises((IndexError, ValueError)):
                native.follow(some_spans, edges, (seen, row))
        with pytest.raises(IndexError):
            native.coded(rows, 0, 1)
    for beyond in (-1, 1, 1 << 40):
        with pytest.raises(IndexError):
            native.add_narrow(np.zeros(1, np.uint32), one + beyond, np.zeros(1, np.uint32))
    with pytest.raises(IndexError):
        native.Ranked.of(one, one - 2, (one, one + 1), (one, one + 1))
    for place in (1, -1, 1 << 40):
        with pytest.raises(IndexError):
            native.ranked(one, [0, place])

    def gathered(
        slots: np.ndarray, places: np.ndarray, wanted: native.Numbers, count: int = 1
    ) -> None:
        parts = native.Parts.of([(event, slots, places, 1)])
        columns = np.zeros((1, count), np.int64)
        assert list(parts.gather(wanted, 0, columns)) == [[[0, len(slots)]]]

    gathered(slot, slot, numbers)
    two = np.zeros(2, np.uint32)
    for slots, places, count in (
        (slot + 1, slot, 1),
        (slot, slot, 2),
        (slot, slot, 3000),
        (two, two, 2),
        (two, np.array([2000, 1], np.uint32), 2),
        (two, np.array([2000, 1], np.uint32), 3000),
    ):
        with pytest.raises(IndexError):
            gathered(slots, places, numbers, count)
    for offset in (57, 64, -1, 1 << 40):
        with pytest.raises(IndexError):
            gathered(slot, slot, numbers._replace(offset=one + offset))
    for kind in (16, -16, 9, -(1 << 63)):
        with pytest.raises(IndexError):
            gathered(slot, slot, numbers._replace(kind=one + kind))

    def index(
        noted: native.Noted = noted, slept: native.Slept = native.NOBODY_SLEPT
    ) -> native.Index:
        return native.Index(told, noted, slept)

    for first, count in ((1, 1), (0, 2), (-1, 1), (0, -1), (1 << 62, 1), (0, (1 << 63) - 1)):
        assert index().look_at(event, [(first, count, 0, 1)], 1, 0) is None
    assert index().look_at(event, [(0, 1, 0, 1)], 0, 0) is None
    assert index().look_at(event, [(0, 1, 0, 1)], 1, 0) == {0: 1}
    for offset in (57, 64, 1 << 40):
        for field in ("tid", "off_ns", "wake_ns"):
            elsewhere = native.NOBODY_SLEPT._replace(**{field: offset})
            assert index(slept=elsewhere).look_at(event, [(0, 1, 0, 1)], 1, 0) is None
    for offset in (-1, 61, 1 << 40):
        beyond_it = native.Noted({1: offset})
        assert index(noted=beyond_it).look_at(event, [(0, 1, 0, 1)], 1, 0) is None
    for size, before, fits in ((0, 0, False), (1, 0, True), (1, 1, False), (2, 1, True)):
        some = index(slept=native.Slept(0, 8, 16, 24))
        room = np.full(size, 7, np.uint32), np.full(size, 7, np.uint64)
        sleeps = np.full(size, 7, np.uint32), np.full(size, 7, np.uint64)
        assert some.look_at(event, [(0, 1, 0, 1)], 1, 0) == {0: 1, native.WHO_SLEPT: 1}
        with pytest.raises(IndexError):
            some.put()
        some.put_at(0, *room, before)
        with pytest.raises(IndexError):
            some.put()
        some.put_at(native.WHO_SLEPT, *sleeps, before)
        if not fits:
            with pytest.raises(IndexError):
                some.put()
            continue
        assert some.put() == 0
        for columns in (room, sleeps):
            assert [column.tolist() for column in columns] == [[7] * before + [0]] * 2
        # There is no room for another one.
        with pytest.raises(IndexError):
            some.put()
    assert native.as_of_after(none, none, None, one, one).tolist() == [-1]
    library = native.LIBRARY
    for count in (0, -64, 63, 65):
        assert library
        assert library.fold(event.ctypes.data, count, 0, table.ctypes.data) == -1


def needed_by(binary: bytes) -> list[int]:
    """The libraries that a shared object says it needs, and versions of theirs, by its tags."""
    (begin,) = struct.unpack_from("<Q", binary, 32)
    size, count = struct.unpack_from("<HH", binary, 54)
    headers = (
        struct.unpack_from("<IIQQQQ", binary, begin + number * size) for number in range(count)
    )
    (dynamic,) = (binary[one[2] : one[2] + one[5]] for one in headers if one[0] == PT_DYNAMIC)
    tags = [tag for tag, _ in struct.iter_unpack("<qQ", dynamic)]
    assert DT_SYMTAB in tags
    return [tag for tag in tags if tag in (DT_NEEDED, DT_VERNEED)]


cell = st.text(st.characters(exclude_characters="\0"), max_size=5)


@given(
    st.lists(st.tuples(anything, st.integers(0, 3), anything), max_size=40), st.tuples(*[cell] * 4)
)
def test_lines_are_those_of_their_cells(
    table: list[tuple[int, int, int]], names: tuple[str, ...]
) -> None:
    first, name, second = columns(table, 3)
    told = [one.encode(errors="surrogatepass") for one in names]
    text = np.frombuffer(b"".join(told) or b"\0", np.uint8)
    end = np.cumsum([len(one) for one in told])
    found = native.lines(
        [native.Cells(first), native.Cells(name.astype(np.int32), text, end), native.Cells(second)],
        len(table),
    )
    expected = b"".join(b"%d,%b,%d\n" % (a, told[which], b) for a, which, b in table)
    assert found.tobytes() == expected


@pytest.mark.parametrize("name", [-1, 2, 2**62, -(2**63)])
@pytest.mark.parametrize("end", [[2, 4], [2, 2], [0, 0]])
def test_a_line_has_no_name_of_nowhere(name: int, end: list[int]) -> None:
    text, names = np.frombuffer(b"abcd", np.uint8), np.array([0, name])
    with pytest.raises(IndexError):
        native.lines([native.Cells(names, text, np.array(end))], 2)


def test_names_that_end_before_they_begin_are_no_names() -> None:
    text = np.frombuffer(b"abcd", np.uint8)
    for end in ([3, 1], [4, -1], [4, 5], [-5, 4]):
        with pytest.raises(IndexError):
            native.lines([native.Cells(np.arange(2), text, np.array(end))], 2)


def test_it_needs_no_library() -> None:
    built = next(path for path in (native.PACKAGED, native.BUILT) if path.exists())
    assert not needed_by(built.read_bytes())
    # As this interpreter's own does.
    assert needed_by(Path(_ctypes.__file__).read_bytes())


def test_a_file_that_is_no_library_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / native.NAME).write_bytes(b"\x7fELF")
    assert native.load([tmp_path / native.NAME, tmp_path]) is None
    assert native.load([tmp_path / native.NAME, native.PACKAGED, native.BUILT]) is not None


def test_one_that_is_older_than_its_sources_is_passed_over(tmp_path: Path) -> None:
    built = next(path for path in (native.PACKAGED, native.BUILT) if path.exists())
    library = tmp_path / native.BUILT.parent.name / native.NAME
    library.parent.mkdir()
    shutil.copy(built, library)
    source = tmp_path / "sweep.c"
    source.touch()
    os.utime(source, ns=(0, library.stat().st_mtime_ns))
    assert native.load([library]) is not None
    os.utime(source, ns=(0, library.stat().st_mtime_ns + 1))
    assert native.load([library]) is None


WATCHED: Final = """
import sys
from pathlib import Path
import pytest
from iostrata import native
native.LIBRARY = native.load([Path(sys.argv[1])])
assert native.LIBRARY is not None
own = ["tests/test_native.py", *map(str, sorted(Path("tests").glob("*/*_in_c.py")))]
own += ["-k", "not real and not watched"]
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *own]))
"""


def test_nothing_is_touched_that_is_not_its_own_when_it_is_watched(tmp_path: Path) -> None:
    library = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not shutil.which("make") or not Path(library).is_absolute():
        pytest.skip("the compiler has no libasan")
    made = ["make", "-s", "-C", str(ROOT / "tracer/native"), f"OUT={tmp_path}", "CFLAGS=-O1 -g",
            "SANITIZE=address,undefined"]  # fmt: skip
    subprocess.run(made, check=True)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(tmp_path / native.NAME)], cwd=ROOT, check=False,
        capture_output=True, text=True,
        env=os.environ | {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
