# SPDX-License-Identifier: Apache-2.0
"""Bench: Measurements as JSON, schema ``iostrata.bench/1``."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from iostrata import model
from iostrata.bench.result import Measurement
from iostrata.report import Breakdown, Count, Ns, json, rounded_ns, text


class Test(Struct, frozen=True):
    """One method of synchronous writing. ``unavailable``: why it could not be tried here.

    ``columns_ns``: an operation's time by column of the table, ``other_ns`` what is left of it;
    null where nothing was recorded.
    """

    group: str
    test: str
    operations: Count
    operations_per_s: float
    ns_per_operation: Ns
    unavailable: str | None
    columns_ns: dict[str, Ns] | None
    other_ns: Ns | None


class Bench(Struct, frozen=True, tag_field="schema", tag="iostrata.bench/1"):
    """pg_test_fsync's tests, and the breakdown of their writes, grouped by test."""

    tests: list[Test]
    breakdown: Breakdown | None


def render(measurements: Sequence[Measurement], summary: model.Summary | None) -> str:
    tests = [_test(found) for found in measurements]
    return text(Bench(tests, json.document(summary) if summary else None))


def _test(found: Measurement) -> Test:
    phase, held = found.phase, found.column_ns
    return Test(
        group=phase.group,
        test=phase.name.strip(),
        operations=phase.operations,
        operations_per_s=round(phase.operations_a_second, 3),
        ns_per_operation=rounded_ns(phase.ns_an_operation),
        unavailable=phase.unavailable or None,
        columns_ns={name: rounded_ns(ns) for name, ns in held.items()} if held else None,
        other_ns=rounded_ns(found.other_ns) if found.other_ns is not None else None,
    )
