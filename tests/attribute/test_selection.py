# SPDX-License-Identifier: Apache-2.0
"""Some of the writes: exactly those, and their times still add up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iostrata.analysis import analyse
from iostrata.attribute import charts, over_time
from iostrata.attribute.selection import WallTime, Wanted, chosen, joined, select
from iostrata.attribute.summarise import grouping, summarise
from iostrata.errors import NothingToAnalyse, UsageError
from iostrata.foreign import shown
from iostrata.model import Behind, Breakdown, Summary, Who
from iostrata.recording import open_recording
from iostrata.report import table
from tests.attribute.test_tail import breakdown

RECORDINGS = Path(__file__).parents[1] / "recordings"
MS = 1_000_000


def mixed(count: int = 60) -> Breakdown:
    """A write each ms; three processes, two of one name, two files on two disks."""
    random = np.random.default_rng(1)
    made = breakdown(random.integers(0, MS, (3, count)), random.integers(0, 1000, count))
    number = np.arange(count)
    writes = replace(
        made.writes,
        tgid=100 + number % 3,
        inode=12 + number % 2,
        codes={
            **made.writes.codes,
            "process": codes(number % 3),
            "device": codes(number % 4 // 2),
            "file": codes(number % 4),
        },
        names={
            **made.writes.names,
            "process": ("fio (100)", "fio (101)", "odd (name) (102)"),
            "device": ("vda", "vdb"),
            "file": ("/db/wal/1", "/db/wal/2", "vdb:12", "/top"),
            "vm": ("",),
        },
    )
    return replace(made, writes=writes)


def codes(values: NDArray[np.signedinteger]) -> NDArray[np.int32]:
    return values.astype(np.int32)


WANTED = st.builds(
    Wanted,
    since_ns=st.none() | st.integers(0, 30 * MS),
    until_ns=st.none() | st.integers(31 * MS, 80 * MS),
    processes=st.sampled_from([(), ("fio",), ("102",), ("fio", "odd (name)")]),
    files=st.sampled_from([(), ("12",), ("vdb:13",), ("vda:12", "vda:13")]),
    slower_ns=st.none() | st.integers(0, 2 * MS),
)


@given(WANTED)
def test_exactly_those_and_they_add_up(wanted: Wanted) -> None:
    whole = mixed()
    expected = [number for number in range(len(whole.writes)) if is_wanted(whole, wanted, number)]
    if not expected:
        with pytest.raises(NothingToAnalyse):
            wanted.rows(whole.writes)
        return
    assert wanted.rows(whole.writes).tolist() == expected
    some = chosen(whole, wanted)
    assert some.writes.begin_ns.tolist() == whole.writes.begin_ns[expected].tolist()
    adds_up(some)
    assert (some.quality.selection is None) == (wanted == Wanted())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a]", [0, 1]), ("/db/[a]", [0, 1]), ("a", [1]), ("a\nb", [2]), ("*a\nb", [2]),
        (r"a\nb", [2]), (r"/*/a\nb", [2]), ("\udcff", [3]), (r"\xff", [3]), ("/db/*", [0, 1, 2, 3]),
    ],
)  # fmt: skip
def test_a_file_of_any_name_is_found_by_it(text: str, expected: list[int]) -> None:
    """As it is, and as it is shown, which is how a breakdown has it; also where it is a pattern."""
    whole = mixed()
    names = tuple(map(shown, ("/db/[a]", "/db/a", "/db/a\nb", "/db/\udcff")))
    writes = replace(whole.writes, names={**whole.writes.names, "file": names})
    wanted = Wanted(files=(text,))
    rows = wanted.rows(writes)
    assert sorted(set(writes.codes["file"][rows].tolist())) == expected
    assert wanted.told() == (f"to file {shown(text)}",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\udcff", [0]), (r"\xff", [0]), ("a\nb", [1]), (r"a\nb", [1]),
        ("fourteen_bytesüx", [2]), (r"fourteen_bytes\xc3", [2]), (r"a\nb (101)", [1]),
    ],
)  # fmt: skip
def test_a_process_of_any_name_is_found_by_it(text: str, expected: list[int]) -> None:
    """The kernel keeps fifteen bytes of a name, perhaps half a letter."""
    whole = mixed()
    kernels = (b"\xff", b"a\nb", "fourteen_bytesüx".encode()[:15])
    names = tuple(f"{shown(name)} ({100 + number})" for number, name in enumerate(kernels))
    writes = replace(whole.writes, names={**whole.writes.names, "process": names})
    wanted = Wanted(processes=(text,))
    found = sorted(set(writes.codes["process"][wanted.rows(writes)].tolist()))
    assert found == expected
    assert wanted.told() == (f"of process {shown(text)}",)


def is_wanted(whole: Breakdown, wanted: Wanted, number: int) -> bool:
    """Write by write, as one would do it by hand."""
    writes = whole.writes
    began = number * MS
    inode, disk = str(writes.inode[number]), ("vda", "vdb")[number % 4 // 2]
    process = ("fio", "fio", "odd (name)")[number % 3], str(writes.tgid[number])
    since, until = wanted.since_ns or 0, wanted.until_ns
    assert isinstance(since, int)
    assert until is None or isinstance(until, int)
    return (
        began >= since
        and (until is None or began < until)
        and (not wanted.processes or bool({*process} & {*wanted.processes}))
        and (not wanted.files or bool({inode, f"{disk}:{inode}"} & {*wanted.files}))
        and (wanted.slower_ns is None or int(writes.latency_ns[number]) > wanted.slower_ns)
    )


def adds_up(some: Breakdown) -> None:
    layers = some.time_ns.sum(axis=0)
    assert np.array_equal(layers + some.residual_ns, some.writes.latency_ns)
    table = summarise(some).overall
    means = sum(row.figures.mean_ns for row in table.rows) + table.residual.mean_ns
    assert means == pytest.approx(table.total.mean_ns)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("four_methods", Wanted(slower_ns=500_000)),
        ("kvm_nfs", Wanted(since_ns=100 * MS, until_ns=500 * MS)),
        ("nfs", Wanted(processes=("fio",))),
        ("asynchronous", Wanted(until_ns=10 * MS)),
    ],
)
def test_of_real_recordings(name: str, wanted: Wanted) -> None:
    whole = analyse(open_recording(RECORDINGS / name))
    some = chosen(whole, wanted)
    assert 0 < len(some.writes) <= len(whole.writes)
    adds_up(some)
    rows = wanted.rows(whole.writes)
    rest = np.setdiff1d(np.arange(len(whole.writes)), rows)
    # What is in the selection and what is not are the whole, layer by layer.
    sums = some.time_ns.sum(axis=1) + whole.time_ns[:, rest].sum(axis=1)
    assert sums.tolist() == whole.time_ns.sum(axis=1).tolist()


def groups(summary: Summary) -> list[tuple[str, int]]:
    return [(group.name, group.count) for group in summary.groups]


def test_a_process_has_the_name_that_the_kernel_cut() -> None:
    whole = mixed()
    long, names = "NetworkManager-dispatcher", {"process": ("NetworkManager- (9)",) * 3}
    renamed = replace(whole, writes=replace(whole.writes, names={**whole.writes.names, **names}))
    assert len(chosen(renamed, Wanted(processes=(long,))).writes) == 60
    with pytest.raises(NothingToAnalyse):
        chosen(renamed, Wanted(processes=("NetworkManager",)))


def test_processes_of_one_name_are_one_group() -> None:
    """The number is shown where there is one only; the group with most of the time comes first."""
    whole = mixed()
    assert groups(summarise(whole, "process")) == [("fio", 40), ("odd (name) (102)", 20)]
    one = chosen(whole, Wanted(processes=("100",)))
    assert groups(summarise(one, "process")) == [("fio (100)", 20)]


def test_what_is_told_of_a_selection_is_its_own() -> None:
    """Its headline and its verdict: whose the writes are, and who else was in their way."""
    whole = mixed()
    others = Behind(
        write=np.tile(np.arange(60), 3),
        layer=np.repeat(np.arange(3), 60),
        who=np.zeros(180, np.int64),
        time_ns=whole.time_ns.ravel(),
        names=(Who("local", "fio"),),
    )
    whole = replace(whole, behind=others)
    assert summarise(whole).composition["process"] == {"fio": 40, "odd (name) (102)": 20}
    some = summarise(chosen(whole, Wanted(processes=("102",), files=("vda:12",))))
    assert some.composition["process"] == {"odd (name) (102)": 5}
    assert some.composition["device"] == {"vda": 5}
    assert "fio" not in " ".join(table.headline(some, 80))
    # All processes of the recording were taken for the selection's own.
    assert [one.behind.who.process for one in some.overall.causes if one.behind] == ["fio"]
    own = summarise(chosen(whole, Wanted(processes=("100",)))).overall
    assert not any(one.behind for one in own.causes)


def test_files_of_one_directory_are_one_group() -> None:
    whole = mixed()
    assert sorted(groups(summarise(whole, "directory"))) == [
        ("/", 15), ("/db/wal", 30), ("vdb:12", 15),
    ]  # fmt: skip
    assert len(groups(summarise(whole, "file"))) == 4
    assert sum(table.share for table in summarise(whole, "file").groups) == pytest.approx(1)


@pytest.mark.parametrize("by", ["method", "size", "process", "file_system", "device"])
@pytest.mark.parametrize("name", ["four_methods", "asynchronous"])
def test_groups_come_by_their_share(by: str, name: str) -> None:
    found = analyse(open_recording(RECORDINGS / name))
    codes, _ = grouping(found.writes, by)
    times = [found.writes.latency_ns[codes == code].sum() for code in np.unique(codes)]
    assert times == sorted(times, reverse=True)
    tables = summarise(found, by).groups
    assert sum(table.count for table in tables) == len(found.writes)


def test_times_of_some_writes_are_the_recordings() -> None:
    """--from 30s chooses by the same time by which what is chosen tells of itself."""
    whole = mixed()
    rows = np.flatnonzero(whole.writes.passed_ns >= 20 * MS)
    some = select(select(whole, rows), np.arange(5, len(rows)))
    assert some.writes.passed_ns.tolist() == whole.writes.passed_ns[rows[5:]].tolist()
    edges = over_time(some, 4).edges_s
    assert edges[0] == some.writes.passed_ns.min() / 1e9
    assert edges[-1] == pytest.approx(some.writes.passed_ns.max() / 1e9)
    assert sum(charts(some).over_time.counts) == len(some.writes)


def test_clocks_that_were_not_sampled() -> None:
    """What a recording has no column of, its parts and what is put together of them have not."""
    without = mixed()
    clocked = replace(without, writes=replace(without.writes, realtime_ns=without.writes.begin_ns))
    some = select(clocked, np.array([1, 4]))
    assert some.writes.realtime_ns is not None
    assert some.writes.realtime_ns.tolist() == [MS, 4 * MS]
    assert select(without, np.array([1, 4])).writes.realtime_ns is None
    assert joined([without, clocked]).writes.realtime_ns is None
    assert joined([clocked, without]).writes.realtime_ns is None
    both = joined([clocked, clocked]).writes.realtime_ns
    assert both is not None
    assert len(both) == 120


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("/db/wal/*", {0, 1}),
        ("*/wal/1", {0}),
        ("1", {0}),
        ("[12]", {0, 1}),
        ("/db/*", {0, 1}),
        ("top", {3}),
        ("vda:12", {0}),
        ("vdb:12", {2}),
        ("/db/wal", set()),
        ("WAL", set()),
    ],
)
def test_files_by_name_path_or_pattern(pattern: str, files: set[int]) -> None:
    whole = mixed()
    wanted = Wanted(files=(pattern,))
    if not files:
        with pytest.raises(NothingToAnalyse):
            wanted.rows(whole.writes)
        return
    assert set((wanted.rows(whole.writes) % 4).tolist()) == files


HOUR = 3600 * 10**9
DAY = 24 * HOUR


def clocked(begin_ns: int, step_ns: int) -> Breakdown:
    whole = mixed()
    times = begin_ns + np.arange(60) * step_ns
    return replace(whole, writes=replace(whole.writes, realtime_ns=times))


def test_times_by_the_clock() -> None:
    """From 23:30 on, a write a minute: of times of day the first that comes."""
    whole = clocked(100 * DAY + 23 * HOUR + HOUR // 2, 60 * 10**9)

    def count(time_ns: int, *, of_day: bool) -> int:
        wanted = Wanted(since_ns=WallTime(time_ns, of_day, ""))
        return len(wanted.rows(whole.writes))

    assert count(100 * DAY + 23 * HOUR + HOUR * 3 // 4, of_day=False) == 45
    assert count(23 * HOUR + HOUR * 3 // 4, of_day=True) == 45
    assert count(HOUR // 4, of_day=True) == 15
    assert count(23 * HOUR, of_day=True) == 60
    midnight = WallTime(101 * DAY, False, "midnight")
    assert chosen(whole, Wanted(until_ns=midnight)).writes.begin_ns.shape == (30,)
    with pytest.raises(UsageError, match="no samples of the machine's clock"):
        Wanted(since_ns=midnight).rows(mixed().writes)


def test_groups_by_control_group() -> None:
    """What a path does not tell is in no container; without one that is not known."""
    number = "3f2a91bc77de" + "0" * 52
    paths = (f"/system.slice/docker-{number}.scope", "/qemu.slice/7.scope", "unknown")
    whole = mixed()
    names = {**whole.writes.names, "cgroup": paths, "vm": ("", "7", "")}
    own = dict.fromkeys(("cgroup", "vm"), codes(np.arange(60) % 3))
    writes = replace(whole.writes, names=names, codes={**whole.writes.codes, **own})
    whole = replace(whole, writes=writes)
    assert {name for name, _ in groups(summarise(whole, "cgroup"))} == set(paths)
    assert sorted(groups(summarise(whole, "container"))) == [
        ("docker 3f2a91bc77de", 20), ("none", 20), ("unknown", 20),
    ]  # fmt: skip
    assert sorted(groups(summarise(whole, "vm"))) == [("7", 20), ("none", 40)]
