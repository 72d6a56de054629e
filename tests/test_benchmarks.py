# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks count, and how they tell it, of made-up numbers."""

from __future__ import annotations

import json
from typing import Any

from tests.benchmarks.parts.floor import sections
from tests.benchmarks.parts.spent import Spent, programs_told, ratios, ratios_above
from tests.benchmarks.parts.there import looks
from tests.benchmarks.tools import Turn, busy_ns, costs


def program(number: int, name: str, ns: int = 0, hits: int = 0) -> dict[str, Any]:
    stats = {"run_time_ns": ns, "run_cnt": hits} if hits else {}
    return {"id": number, "type": "tracing", "name": name, **stats}


def test_a_machine_says_what_each_recorder_took() -> None:
    ids = {0: {7, 9}, 1: {8}}
    before = [program(7, "issue", 1000, 10), program(8, "issue", 500, 10), program(9, "complete")]
    after = [program(7, "issue", 3000, 20), program(8, "issue", 1500, 20),
             program(9, "complete", 400, 4), program(10, "somebody's", 10**9, 1)]  # fmt: skip
    first = looks(f"{json.dumps(before)}\n4096 1000 5 3 2000 6 4\n0 100 9 1\n", ids)
    then = looks(f"{json.dumps(after)}\n12288 6000 5 3 3000 6 4\n0 100 9 1\n", ids)
    recorder, nothing = (
        one.spent(earlier, writes=4) for one, earlier in zip(then, first, strict=True)
    )
    assert recorder.programs == {"issue": (2000, 10), "complete": (400, 4)}
    assert (recorder.bpf_ns, recorder.recorder_ns, recorder.bytes) == (600, 1500, 2048)
    without = then[0].spent(first[0], 4, ("issue",))
    assert (without.programs, without.bpf_ns) == ({"complete": (400, 4)}, 100)
    assert nothing.programs == {"issue": (1000, 10)}
    assert (nothing.bpf_ns, nothing.recorder_ns, nothing.bytes) == (250, 0, 0)


def of(ns: int) -> Spent:
    return Spent({"issue": (ns * 10, 20), "rare": (ns, 0)}, ns, ns, ns)


def test_a_ratio_is_of_two_rounds_in_turns() -> None:
    """Who comes first pays twice: that cancels."""
    rounds = [[of(200), of(50), of(20)], [of(100), of(100), of(20)]]
    assert ratios(rounds, lambda one: one.bpf_ns) == [0.5]
    above = [[of(220), of(120), of(20)], [of(120), of(220), of(20)]]
    assert [round(one, 9) for one in ratios_above(above)] == [1.0]


def test_programs_are_told_a_write_and_a_hit() -> None:
    rounds = [[of(200), of(50), of(20)], [of(100), of(100), of(20)]]
    (line,) = programs_told(rounds, writes=10)
    assert line.split() == ["150", "75", "20", "2.00", "2.00", "75", "38", "10", "issue"]


def test_nothing_is_attached_as_the_recorder_is() -> None:
    """At each point of a program, as far as the kernel has it; to no program's functions."""
    probes = "\n".join(
        f"{program}\t{points}\tlayer\tok\t"
        for program, points in {
            "call": "sys_enter_write,sys_enter_missing",
            "issue": "block_rq_issue",
            "function": "aio_complete",
            "many": "nfsd_write",
            "daemon": "virtiofsd:send",
            "absent": "block_getrq",
        }.items()
    )
    attached = dict.fromkeys(("call", "issue", "function", "daemon"), "tracing")
    events = ("sys_enter_write", "block_rq_issue", "block_getrq")
    assert sections(probes, {**attached, "many": "kprobe"}, events) == [
        ("call", "tp", "sys_enter_write"),
        ("issue", "tp_btf/block_rq_issue", "block_rq_issue"),
        ("function", "fentry/aio_complete", "aio_complete"),
        ("many", "kprobe/nfsd_write", "nfsd_write"),
    ]


def test_a_tool_stands_against_what_was_around_it() -> None:
    """A machine that becomes slower makes nobody dear."""
    turns = [Turn("", [100, 100]), Turn("dear", [220, 330]), Turn("", [120, 120]),
             Turn("free", [130, 130]), Turn("", [140, 140]), Turn("dear", [300]),
             Turn("", [160, 160])]  # fmt: skip
    assert costs(turns, "dear") == [(2, 110), (3, 220), (2, 150)]
    assert costs(turns, "free") == [(1, 0), (1, 0)]


def test_a_processor_was_at_work_while_it_was_not_idle() -> None:
    assert busy_ns("1000\n400\n30\n9000\n5400\n1030\n") == 2000
