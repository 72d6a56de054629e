# SPDX-License-Identifier: Apache-2.0
"""Who did something together: parts of a hundred, also where what they did was a crowd's before."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from iostrata.model import UNKNOWN, Crowd, Who
from iostrata.recording import open_recording
from iostrata.stitch.people import NOBODY, People
from tests.synthetic import World


def test_a_crowd_of_a_crowd_is_of_its_members(tmp_path: Path) -> None:
    """As with a loop device's page cache, where a journal wrote for several, and one for itself."""
    world = World()
    world.target(100)
    world.builder.write(tmp_path / "machine")
    (trace,) = open_recording(tmp_path / "machine").traces()
    people = People(trace)
    one, other = people.number("one", 0), people.number("other", 0)
    weights = np.array([30, 10, 60])
    first = people.crowds(1, np.zeros(3, np.int64), np.array([one, other, NOBODY]), weights)
    again = people.crowds(
        2, np.array([0, 0, 0, 1]), np.array([first[0], one, NOBODY, first[0]]),
        np.array([100, 60, 40, 7]),
    )  # fmt: skip
    named = [Who(trace.machine, name) for name in ("one", "other")]
    expected = (Crowd((UNKNOWN, named[0], named[1]), (50, 45, 5)), people.names[first[0]])
    assert tuple(people.names[number] for number in again) == expected
    assert people.names[first[0]] == Crowd((UNKNOWN, *named), (60, 30, 10))
