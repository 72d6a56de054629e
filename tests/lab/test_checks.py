# SPDX-License-Identifier: Apache-2.0
"""Checks on breakdowns made by hand: each fails for its own reason, and only then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from iostrata.analysis import LOST
from iostrata.lab.checks import Check, Measured, Pair, observed, of_fault, of_injection, of_round
from iostrata.lab.scenario import Checks, Excused, Fault, Injection
from iostrata.lab.workload import Witness
from iostrata.model import Behind, Breakdown, Crossing, Layer, Quality, Who, Writes
from iostrata.record.diagnosis import Probe

WRITES = 1000
BEGIN_NS = 1_000
AMID = (1_100, 1_200)
COLUMNS = (
    "durable_writes",
    "tid",
    "tgid",
    "size_bytes",
    "pieces",
    "device_key",
    "inode",
    "offset_bytes",
)
WANTED = Checks()
INJECTION = Injection(
    name="delay",
    workload="w",
    step="slow",
    replace={},
    delay_ns=3_000_000,
    rows=("device.*",),
)


def breakdown(
    rows: Mapping[str, int],
    residual_ns: int = 0,
    left_out: Mapping[str, int] | None = None,
    quality: Quality | None = None,
) -> Breakdown:
    """Every write spends so many ns in each row."""
    ones, begin = np.ones(WRITES, np.int64), BEGIN_NS + np.arange(WRITES)
    time_ns = np.array([ones * ns for ns in rows.values()])
    residual = ones * residual_ns
    latency = time_ns.sum(axis=0) + residual
    writes = Writes(
        begin_ns=begin,
        end_ns=begin + latency,
        latency_ns=latency,
        **dict.fromkeys(COLUMNS, ones),
        codes={},
        names={},
    )
    layers = tuple(Layer(name, "OS", "local", "") for name in rows)
    return Breakdown(writes, layers, time_ns, residual, left_out or {}, quality or Quality())


def measured(rows: Mapping[str, int], residual_ns: int = 0) -> Measured:
    """The workload saw what was recorded."""
    return Measured(breakdown(rows, residual_ns), Witness(WRITES, sum(rows.values()) + residual_ns))


ROWS = {"syscall": 20_000, "device.data": 80_000}
PLAIN = breakdown(ROWS)


def failed(checks: Iterable[Check]) -> list[str]:
    return [check.name for check in checks if not check.passed]


HOGGED = breakdown({"syscall": 20_000, "device.data": 3_080_000})


def behind_hog(hog_ns: int) -> Breakdown:
    """So much of each write's row, and all of another row, are behind hog, a process or machine."""
    behind = Behind(
        write=np.tile(np.arange(WRITES), 3),
        layer=np.repeat([1, 1, 0], WRITES),
        who=np.concatenate((np.tile([1, 2], WRITES // 2), np.repeat([0, 1], WRITES))),
        time_ns=np.repeat([hog_ns, 3_080_000 - hog_ns, 20_000], WRITES),
        names=(
            Who("local", "qemu", vm="other"),
            Who("local", "hog", "/noisy"),
            Who("local", "qemu", "/noisy", vm="hog"),
        ),
    )
    return replace(HOGGED, behind=behind)


@pytest.mark.parametrize(
    ("hog_ns", "wrong"),
    [(3_000_000, []), (2_900_000, []), (2_500_000, ["behind hog"]), (0, ["behind hog"])],
)
def test_whom_an_injection_is_behind(hog_ns: int, wrong: list[str]) -> None:
    """Of its rows only, and of nobody else's process."""
    injection = msgspec.structs.replace(INJECTION, delay_ns=None, behind="hog")
    delayed = Measured(behind_hog(hog_ns), Witness(WRITES, 3_100_000))
    assert failed(of_injection(WANTED, injection, [Pair(delayed, measured(ROWS))])) == wrong


@pytest.mark.parametrize(
    ("hog_ns", "wrong"),
    [(1_940_000, False), (2_060_000, False), (1_880_000, True), (2_120_000, True), (0, True)],
)
def test_what_had_the_cpu_is_held_against_what_is_behind_it(hog_ns: int, wrong: bool) -> None:
    """Whatever else the rows hold."""
    injection = msgspec.structs.replace(INJECTION, delay_ns=None, behind="hog")
    witness = Witness(WRITES, 3_100_000)
    delayed = Measured(behind_hog(hog_ns), witness, kept_ns=2_000_000 * WRITES)
    (check,) = of_injection(WANTED, injection, [Pair(delayed, measured(ROWS))])
    assert (check.name, check.passed) == ("found in device.* behind hog", not wrong)
    assert check.found == f"{hog_ns / 2_000_000:.2%} of 2.00 ms"


def test_a_good_round() -> None:
    assert failed(of_round(WANTED, Measured(PLAIN, Witness(WRITES, 101_000)))) == []
    # A program's own part of its mean is larger where all is slower.
    slow = [(103_500, 2.0, []), (103_500, 1.0, ["mean"]), (150_000, 9.0, ["mean"])]
    for mean_ns, pace, wrong in [*slow, (96_000, 2.0, ["mean"])]:
        told = Measured(PLAIN, Witness(WRITES, mean_ns))
        assert failed(of_round(WANTED, told, pace)) == wrong


@pytest.mark.parametrize(
    ("found", "witness", "wrong"),
    [
        (PLAIN, Witness(WRITES + 1, 100_000), ["count"]),
        (PLAIN, Witness(WRITES, 104_000), ["mean"]),
        (PLAIN, Witness(WRITES, 104_000, 2_000), []),
        (PLAIN, Witness(WRITES, 110_000, 2_000), ["mean"]),
        (PLAIN, Witness(WRITES, 95_000, 50_000), ["mean"]),
        (PLAIN, Witness(WRITES, 0), ["mean"]),
        (breakdown({"syscall": 98_000}, 2_000), Witness(WRITES, 100_000), ["residual"]),
        (breakdown({"syscall": 102_000}, -2_000), Witness(WRITES, 100_000), ["residual"]),
        (
            breakdown({"syscall": 100_000}, left_out={"cut": 2}),
            Witness(WRITES + 2, 100_000),
            ["analysed"],
        ),
        (
            breakdown({"syscall": 100_000}, quality=Quality(lost={"local:syscall": 1})),
            Witness(WRITES, 100_000),
            ["lost"],
        ),
    ],
)
def test_a_bad_round(found: Breakdown, witness: Witness, wrong: list[str]) -> None:
    assert failed(of_round(WANTED, Measured(found, witness))) == wrong


@pytest.mark.parametrize(
    ("lost", "left_out", "mean_ns", "wrong"),
    [
        ({"local:program:nvmet_end": 5}, {LOST: 250}, 100_000, []),
        ({"program:nvmet_end": 5}, {LOST: 250}, 100_000, []),
        # More than one in a hundred writes, or so much that what is left is not the round.
        ({"program:nvmet_end": 13}, {LOST: 250}, 100_000, ["lost"]),
        ({"program:nvmet_end": 5}, {LOST: 1_001}, 100_000, ["analysed"]),
        # What was left out is as the analysed ones are: it varies by 20 % in these.
        ({"program:nvmet_end": 5}, {LOST: 250}, 103_000, []),
        ({"program:nvmet_end": 5}, {LOST: 250}, 106_000, []),
        ({"program:nvmet_end": 5}, {LOST: 250}, 109_000, ["mean"]),
        ({}, {}, 106_000, ["mean"]),
        # For other reasons, nothing may be missing.
        ({"program:nvmet_end": 5}, {LOST: 250, "cut": 2}, 100_000, ["analysed"]),
        ({"program:nvmet_end": 5, "nvmet_req_init": 1}, {LOST: 250}, 100_000, ["lost", "analysed"]),
        ({}, {LOST: 250}, 100_000, ["analysed"]),
    ],
)
def test_a_program_that_the_kernel_skipped(
    lost: dict[str, int], left_out: dict[str, int], mean_ns: float, wrong: list[str]
) -> None:
    """It was met by an interrupt of its own kind: that is counted, and what it may touch is left
    out, as it is to be; what is lost of a ring is another thing."""
    found = breakdown(ROWS, left_out=left_out, quality=Quality(lost=lost))
    found.writes.begin_ns[:] = np.arange(WRITES)
    for part in (found.time_ns[1], found.writes.latency_ns):
        np.add(part, np.repeat([-10_000, 10_000, -10_000, 10_000], WRITES // 4), out=part)
    witness = Witness(WRITES + sum(left_out.values()), mean_ns)
    assert failed(of_round(WANTED, Measured(found, witness))) == wrong


@pytest.mark.parametrize(
    ("lost", "missing", "wrong"),
    [
        ({"local:program:syscall_exit": 2}, 2, []),
        ({"program:syscall_exit": 2}, 1, []),
        ({"program:syscall_exit": 1}, 2, ["count"]),
        # One that is no call's hides none; nor is there ever one too many.
        ({"program:block_rq_issue": 2}, 1, ["count"]),
        ({"program:syscall_exit": 2}, -1, ["count"]),
        ({}, 1, ["count"]),
    ],
)
def test_calls_whose_end_the_kernel_skipped(
    lost: dict[str, int], missing: int, wrong: list[str]
) -> None:
    found = breakdown(ROWS, quality=Quality(lost=lost))
    assert failed(of_round(WANTED, Measured(found, Witness(WRITES + missing, 100_000)))) == wrong


@pytest.mark.parametrize(
    ("quality", "wrong"),
    [
        (Quality(), []),
        (Quality(unfollowed=10), []),
        (Quality(unfollowed=11), ["followed"]),
        (Quality(apart=("host: nothing ties it",)), ["followed"]),
    ],
)
def test_what_was_not_followed(quality: Quality, wrong: list[str]) -> None:
    found = Measured(breakdown(ROWS, quality=quality), Witness(WRITES, 100_000))
    assert failed(of_round(msgspec.structs.replace(WANTED, followed=0.99), found)) == wrong
    assert failed(of_round(WANTED, found)) == []


CROSSING = Crossing("nbd", "client", "server", 100, 100, 0, "tsc", 300, 0.0)


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ({"client/syscall": 20_000, "network.there": 30_000, "server/device.data": 50_000}, []),
        ({"client/syscall": 20_000, "network.there": 80_000}, ["followed"]),
        ({"client/syscall": 20_000, "client/device.data": 80_000}, ["followed"]),
        ({"client/syscall": 100_000}, ["followed"]),
    ],
)
def test_what_was_followed_has_its_time_where_it_was_followed_to(
    rows: dict[str, int], wrong: list[str]
) -> None:
    """A hop that ties all of the requests says nothing of the table."""
    found = breakdown(rows, quality=Quality(crossings=(CROSSING,)))
    found = replace(found, layers=tuple(map(placed, found.layers)))
    wanted = msgspec.structs.replace(WANTED, followed=0.99)
    measured = Measured(found, Witness(WRITES, 100_000))
    assert failed(of_round(wanted, measured)) == wrong
    assert failed(of_round(msgspec.structs.replace(wanted, beyond=0.0), measured)) == []


def test_what_a_machine_asks_of_itself_is_on_none_below() -> None:
    own = Crossing("ceph", "client", "client", 100, 100, 0, "being the same", 0, 0.0)
    found = breakdown({"client/syscall": 20_000, "client/device.data": 80_000},
                      quality=Quality(crossings=(own,)))  # fmt: skip
    found = replace(found, layers=tuple(map(placed, found.layers)))
    wanted = msgspec.structs.replace(WANTED, followed=0.99)
    assert failed(of_round(wanted, Measured(found, Witness(WRITES, 100_000)))) == []


def test_flushes_of_a_library_are_no_writes() -> None:
    found = breakdown({"syscall": 100_000})
    code = (np.arange(WRITES) < 10).astype(np.int32)
    writes = replace(
        found.writes, names={"method": ("librbd:write", "librbd:flush")}, codes={"method": code}
    )
    measured = Measured(replace(found, writes=writes), Witness(WRITES - 10, 100_000))
    assert failed(of_round(WANTED, measured)) == []
    assert failed(of_round(WANTED, replace(measured, breakdown=found))) == ["count"]


def placed(layer: Layer) -> Layer:
    """On the machine that its name begins with; the network is the client's."""
    machine = layer.name.split("/")[0] if "/" in layer.name else "client"
    segment = {"syscall": "OS", "network": "network"}.get(layer.row.split(".")[0], "device")
    return replace(layer, machine=machine, segment=f"{machine} OS" if segment == "OS" else segment)


def test_a_broken_sum() -> None:
    found = breakdown({"syscall": 100_000})
    found.residual_ns[7] += 1
    assert failed(of_round(WANTED, Measured(found, Witness(WRITES, 100_000)))) == ["conservation"]


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ({"syscall": 20_000, "device.data": 3_080_000}, []),
        ({"syscall": 20_000, "device.data": 1_080_000, "device.flush": 2_000_000}, []),
        ({"syscall": 20_000, "device.data": 2_900_000}, ["found in device.*"]),
        ({"syscall": 20_000, "device.data": 4_500_000}, []),
        ({"syscall": 20_000, "device.data": 6_080_000}, ["found in device.*"]),
        ({"syscall": 120_000, "device.data": 3_080_000}, ["found elsewhere"]),
        (
            {"syscall": 20_000, "device.data": 80_000, "journal.start": 3_000_000},
            ["found in device.*", "found elsewhere"],
        ),
    ],
)
def test_where_an_injection_is_found(rows: dict[str, int], wrong: list[str]) -> None:
    assert failed(of_injection(WANTED, INJECTION, [Pair(measured(rows), measured(ROWS))])) == wrong


def drifting(ns: int) -> Measured:
    """A round whose calls take ``ns`` longer each quarter of it."""
    found = measured(ROWS)
    row = [layer.name for layer in found.breakdown.layers].index("syscall")
    longer = np.repeat(np.arange(4) * ns, WRITES // 4)
    found.breakdown.time_ns[row] += longer
    found.breakdown.writes.latency_ns[:] += longer
    found.breakdown.writes.begin_ns[:] = np.arange(WRITES)
    return found


@pytest.mark.parametrize(("ns", "wrong"), [(10_000, ["found elsewhere"]), (40_000, [])])
def test_what_a_round_varies_by_is_allowed_for(ns: int, wrong: list[str]) -> None:
    """Too much of 3 ms, unless a good part of it is what the calls drift by on their own."""
    slow = measured({"syscall": 220_000, "device.data": 3_080_000})
    found = list(of_injection(WANTED, INJECTION, [Pair(slow, drifting(ns))]))
    assert failed(found) == wrong
    assert f"noise {3 * ns / 3_000_000:.1%}" in found[1].wanted


@pytest.mark.parametrize(
    ("row", "waited_ns", "wrong"),
    [
        ("server/wakeup.runqueue", 600_000, []),
        ("server/wakeup.runqueue", 400_000, ["found elsewhere"]),
        ("server/wakeup.runqueue", 0, ["found elsewhere"]),
        ("server/wakeup.runqueue", -600_000, ["found elsewhere"]),
        ("server/wakeup.interrupt", 600_000, ["found elsewhere"]),
    ],
)
def test_who_waits_for_a_cpu_does_so_for_as_long_as_its_machine(
    row: str, waited_ns: float, wrong: list[str]
) -> None:
    """600 us longer, of which 3 % of 3 ms are allowed for anyway; a write waited 2 ms before."""
    plain = replace(measured({row: 100_000, "device.data": 80_000}), waited_ns=2_000_000)
    slow = measured({row: 700_000, "device.data": 3_080_000})
    slow = replace(slow, waited_ns=2_000_000 + waited_ns)
    assert failed(of_injection(WANTED, INJECTION, [Pair(slow, plain)])) == wrong


MANY = {f"guest/row{number}": 200_000 + number * 10_000 for number in range(10)}


@pytest.mark.parametrize(
    ("rows", "factor", "wrong"),
    [
        (10, 2, []),
        (10, 0.5, []),
        (10, 1, []),
        # Of few rows nobody knows which is the odd one.
        (6, 2, ["found elsewhere"]),
    ],
)
@pytest.mark.parametrize("displaced", [False, True])
def test_all_else_may_be_slower(
    rows: int, factor: float, wrong: list[str], displaced: bool
) -> None:
    """As all rows that were not delayed are, but none by more than the others."""
    plain = dict(list(MANY.items())[:rows])
    slow = {row: int(ns * factor) for row, ns in plain.items()}
    if displaced:
        slow["guest/row3"] += 300_000
        wrong = ["found elsewhere"]
    delayed = measured({**slow, "device.data": 3_080_000})
    found = list(
        of_injection(WANTED, INJECTION, [Pair(delayed, measured({**plain, "device.data": 80_000}))])
    )
    assert failed(found) == wrong
    assert (f"{factor:.2f} x" in found[1].found) == (rows > 6 and factor != 1)


def test_a_timer_is_no_slower_where_all_else_is() -> None:
    """Such as what completes a request of null_blk."""
    plain = {**MANY, "guest/row10": 1_000_000, "device.data": 80_000}
    slow = {row: 2 * ns for row, ns in MANY.items()}
    slow |= {"guest/row10": 1_000_000, "device.data": 3_080_000}
    assert failed(of_injection(WANTED, INJECTION, [Pair(measured(slow), measured(plain))])) == []


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ("server/device.*", []),
        ("device.data", []),
        ("guest/device.*", ["found in guest/device.*", "found elsewhere"]),
    ],
)
def test_rows_with_and_without_their_machine(pattern: str, wrong: list[str]) -> None:
    plain = measured({"guest/device.data": 10_000, "server/device.data": 20_000})
    slow = measured({"guest/device.data": 10_000, "server/device.data": 3_020_000})
    injection = msgspec.structs.replace(INJECTION, rows=(pattern,))
    assert failed(of_injection(WANTED, injection, [Pair(slow, plain)])) == wrong


def test_a_few_writes_that_are_slow_for_another_reason() -> None:
    slow = breakdown({"syscall": 20_000, "device.data": 3_080_000})
    for part in (slow.time_ns[0], slow.writes.latency_ns):
        part[: WRITES // 50] += 100_000_000
    found = Measured(slow, Witness(WRITES, 5_100_000))
    assert failed(of_injection(WANTED, INJECTION, [Pair(found, measured(ROWS))])) == []


def test_an_injection_whose_delay_only_the_workload_knows() -> None:
    unknown = msgspec.structs.replace(INJECTION, delay_ns=None)
    slow = measured({"syscall": 20_000, "device.data": 5_080_000})
    first, second = of_injection(WANTED, unknown, [Pair(slow, measured(ROWS))])
    assert (first.found, second.found) == ("100.00% of 5.00 ms", "+0.00% in syscall")


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ({"b/device.data": 5_000_000}, []),
        ({"b/device.data": 5_000_000, "a/osd.op": 30_000}, []),
        ({"b/device.data": 4_400_000, "a/osd.op": 1_500_000}, ["found in b/*", "found elsewhere"]),
        ({"b/device.data": 4_400_000, "syscall": 620_000}, ["found in b/*", "found elsewhere"]),
        # Only the named ones are done meanwhile.
        ({"b/device.data": 5_020_000, "syscall": 0}, ["found elsewhere"]),
    ],
)
def test_what_is_waited_for_no_longer_may_take_less(rows: dict[str, int], wrong: list[str]) -> None:
    """Of two that are waited for at once, the slower one becomes the other."""
    parallel = msgspec.structs.replace(INJECTION, delay_ns=None, rows=("b/*",), instead=("a/*",))
    plain = {"syscall": 200_000, "a/osd.op": 900_000, "b/device.data": 100_000}
    delayed = {**plain, "a/osd.op": 0, **rows}
    found = of_injection(WANTED, parallel, [Pair(measured(delayed), measured(plain))])
    assert failed(found) == wrong


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ({"b/network.back": 1_100_000, "b/osd.op": 500_000}, []),
        ({"b/network.back": 600_000, "b/osd.op": 1_000_000}, ["found in b/network.*"]),
        ({"b/network.back": 1_100_000, "b/osd.op": 500_000, "syscall": 700_000},
         ["found elsewhere"]),
    ],
)  # fmt: skip
def test_what_is_always_waited_for_from_now_on_may_take_more(
    rows: dict[str, int], wrong: list[str]
) -> None:
    """The whole of what becomes the slower one, of which the delay itself is known."""
    parallel = msgspec.structs.replace(
        INJECTION, delay_ns=1_000_000, rows=("b/network.*",), instead=("a/*", "b/*")
    )
    plain = {"syscall": 200_000, "a/osd.op": 500_000, "b/network.back": 100_000, "b/osd.op": 50_000}
    delayed = {**plain, "a/osd.op": 0, **rows}
    found = of_injection(WANTED, parallel, [Pair(measured(delayed), measured(plain))])
    assert failed(found) == wrong


def test_what_all_else_is_slower_by_is_none_of_a_delay_that_only_the_workload_knows() -> None:
    """Half of what the workload took longer."""
    unknown = msgspec.structs.replace(INJECTION, delay_ns=None)
    plain = {**MANY, "device.data": 80_000}
    slow = {row: 2 * ns for row, ns in MANY.items()} | {"device.data": 2_530_000}
    first, second = of_injection(WANTED, unknown, [Pair(measured(slow), measured(plain))])
    assert (first.found, first.passed) == ("100.00% of 2.37 ms", True)
    assert (second.found, second.passed) == ("+0.00% in guest/row0 beside 2.00 x", True)
    slow["guest/row3"] += 300_000
    found = of_injection(WANTED, unknown, [Pair(measured(slow), measured(plain))])
    assert failed(found) == ["found in device.*", "found elsewhere"]
    slow = {row: 2 * ns for row, ns in plain.items()}
    (check,) = of_injection(WANTED, unknown, [Pair(measured(slow), measured(plain))])
    assert (check.name, check.passed, check.found) == ("delayed", False, "as all else, 2.00 x")


@pytest.mark.parametrize(
    ("each_ns", "wrong"),
    [(940_000, True), (960_000, False), (1_040_000, False), (1_060_000, True), (0, True)],
)
def test_what_the_kernel_kept_is_held_against_its_rows_alone(each_ns: int, wrong: bool) -> None:
    """Whatever else takes longer than without, and however much the round varies."""
    found = drifting(400_000).breakdown
    found.time_ns[0] = each_ns
    name = found.layers[0].name
    kept = msgspec.structs.replace(INJECTION, delay_ns=None, rows=(name,))
    slow = Measured(found, Witness(WRITES, 9_000_000), kept_ns=1_000_000 * WRITES)
    (check,) = of_injection(WANTED, kept, [Pair(slow, measured(ROWS))])
    assert (check.name, check.passed) == (f"found in {name}", not wrong)
    assert check.found == f"{each_ns / 1_000_000:.2%} of 1.00 ms"


def test_an_injection_that_delays_nothing() -> None:
    unknown = msgspec.structs.replace(INJECTION, delay_ns=None)
    slower = measured({**ROWS, "syscall": 1_020_000})
    (check,) = of_injection(WANTED, unknown, [Pair(measured(ROWS), slower)])
    assert (check.name, check.passed, check.found) == ("delayed", False, "-1.00 ms longer")


def test_what_must_be_observed() -> None:
    probes = [
        Probe("fs_enter", ("ext4_sync_file_enter",), "fs", "ok", ""),
        Probe("fs_exit", ("ext4_sync_file_exit",), "fs", "EINVAL", "refused"),
        Probe("journal_start", ("jbd2_start_commit",), "journal", "ESRCH", "missing"),
    ]
    fs, journal = observed(("fs", "journal"), probes)
    assert fs == Check("sees fs", True, "partly, without fs_exit", "yes")
    assert not journal.passed
    assert list(observed((), probes)) == []


def test_a_table_beside_a_fault_is_right_or_says_what_it_is_not() -> None:
    blind = Quality(lost={"local": 3})
    struck = Measured(breakdown(ROWS, quality=blind), Witness(WRITES, 100_000), struck_ns=AMID)
    quiet = Fault(name="clock", workload="w", machine="local", command="date")
    assert failed(of_fault(WANTED, quiet, struck, ["lost 3 events"])) == ["lost"]
    loud = msgspec.structs.replace(quiet, told=("*lost * events*",), excused=("lost",))
    assert failed(of_fault(WANTED, loud, struck, ["analysed", "lost 3 events on local"])) == []
    assert failed(of_fault(WANTED, loud, struck, ["lost nothing"])) == ["told *lost * events*"]
    nowhere = breakdown(ROWS, quality=Quality(unfollowed=14))
    wrong = Measured(nowhere, Witness(WRITES, 100_000), struck_ns=AMID)
    wanted = msgspec.structs.replace(WANTED, followed=0.99)
    for under_way, missed in ((4, []), (3, ["followed"])):
        fault = msgspec.structs.replace(quiet, unfollowed=under_way)
        assert failed(of_fault(wanted, fault, wrong, [])) == missed
    residual = breakdown(ROWS, residual_ns=90_000)
    wrong = Measured(residual, Witness(WRITES, 190_000), struck_ns=AMID)
    assert failed(of_fault(WANTED, loud, wrong, ["lost 3 events"])) == ["residual"]


@pytest.mark.parametrize(
    ("since_ns", "until_ns", "excused", "amid"),
    [
        (*AMID, (), True),
        (0, 0, (), False),
        (1, 5_000, (), False),
        (9_999_999, 9_999_999, (), False),
        (9_999_999, 9_999_999, ("analysed",), True),
    ],
)
def test_a_fault_that_came_too_early_or_too_late_proves_nothing(
    since_ns: int, until_ns: int, excused: tuple[Excused, ...], amid: bool
) -> None:
    """A guest's program took seconds to begin: the halt was over before its first write."""
    fault = Fault(name="halted", workload="w", machine="local", halted_s=2, excused=excused)
    struck = Measured(PLAIN, Witness(WRITES, 100_000), struck_ns=(since_ns, until_ns))
    assert failed(of_fault(WANTED, fault, struck, [])) == ([] if amid else ["struck"])


@pytest.mark.parametrize(
    ("mean_ns", "paused_ns", "wrong"),
    [
        (100_000, 0, []),
        (110_000, 0, []),
        (115_000, 0, ["mean"]),
        # It stood still for as long as 300 writes take, of 1000: where no write was under way.
        (130_000, 30_000_000, []),
        (130_000, 10_000_000, ["mean"]),
        (150_000, 30_000_000, ["mean"]),
        (90_000, 30_000_000, ["mean"]),
    ],
)
@pytest.mark.parametrize("within", [False, True])
def test_a_halt_between_two_writes_is_in_the_mean_of_the_program_only(
    mean_ns: float, paused_ns: int, wrong: list[str], within: bool
) -> None:
    """``within``: between two calls of one write."""
    fault = Fault(name="halted", workload="w", machine="local", halted_s=2)
    writes = PLAIN.writes
    begin_ns, end_ns = writes.begin_ns.copy(), writes.end_ns.copy()
    begin_ns[500 + within :] += paused_ns
    end_ns[500:] += paused_ns
    halted = replace(PLAIN, writes=replace(writes, begin_ns=begin_ns, end_ns=end_ns))
    struck = Measured(halted, Witness(WRITES, mean_ns), struck_ns=AMID)
    assert failed(of_fault(WANTED, fault, struck, [])) == wrong


def test_shares_of_several_pairs_are_their_medians() -> None:
    """One of three rounds that is wrong is said, and no more."""
    bad = {"syscall": 320_000, "device.data": 2_780_000}
    good = {"syscall": 20_000, "device.data": 3_080_000}
    pairs = [Pair(measured(rows), measured(ROWS)) for rows in (good, bad, good)]
    first, second = of_injection(WANTED, INJECTION, pairs)
    assert (first.passed, first.found) == (True, "100.00% of 3.00 ms (+90.00% to +100.00%)")
    assert (second.passed, second.found) == (True, "+0.00% in syscall (+0.00% to +10.00%)")
    pairs = [Pair(measured(rows), measured(ROWS)) for rows in (bad, bad, good)]
    wrong = ["found in device.*", "found elsewhere"]
    assert failed(of_injection(WANTED, INJECTION, pairs)) == wrong


def test_one_of_several_pairs_without_a_delay() -> None:
    unknown = msgspec.structs.replace(INJECTION, delay_ns=None)
    slow = measured({"syscall": 20_000, "device.data": 3_080_000})
    pairs = [Pair(slow, measured(ROWS)), Pair(measured(ROWS), slow)]
    assert failed(of_injection(WANTED, unknown, pairs)) == ["delayed"]
