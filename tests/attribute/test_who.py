# SPDX-License-Identifier: Apache-2.0
"""Whom a verdict may name beside who wrote."""

from __future__ import annotations

import pytest

from iostrata.attribute.who import leader
from iostrata.model import Part, Who

OWN = frozenset({("writer", "")})


def part_of(process: str, share: float = 0.6) -> Part:
    return Part(Who("local", process, ""), share * 1000, share)


@pytest.mark.parametrize(
    ("process", "named"),
    [("neighbour", True), ("writer", False), ("jbd2/vda1-8", False), ("idle", False)],
)
def test_who_else_is_named(process: str, named: bool) -> None:
    """A journal's thread does what writers wait for, maybe for the one that is looked at."""
    part = part_of(process)
    assert leader([part], OWN, 1.0) == (part if named else None)


def test_who_has_less_than_half_is_not_named() -> None:
    assert leader([part_of("neighbour", 0.4)], OWN, 1.0) is None


def test_a_journal_hides_nobody() -> None:
    other = part_of("neighbour", 0.5)
    assert leader([part_of("jbd2/vda1-8"), other], OWN, 1.0) == other
