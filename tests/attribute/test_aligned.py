# SPDX-License-Identifier: Apache-2.0
"""What a machine of its own takes, beside a virtual one: each row is held against its like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.attribute.aligned import aligned
from iostrata.attribute.compare import compare
from iostrata.attribute.run import Run, run_of
from iostrata.model import Beside, Breakdown
from iostrata.recording import open_recording

RECORDINGS = Path(__file__).parents[1] / "recordings"


@pytest.fixture(scope="module")
def native() -> Breakdown:
    return analyse(open_recording(RECORDINGS / "nvme"))


@pytest.fixture(scope="module")
def guest() -> Breakdown:
    return analyse(open_recording(RECORDINGS / "nvme_vfio"))


def means_ns(breakdown: Breakdown) -> dict[str, float]:
    rows = zip(breakdown.layers, breakdown.time_ns.mean(axis=1).tolist(), strict=True)
    return {layer.name: mean for layer, mean in rows}


def test_what_passthrough_costs_and_where(native: Breakdown, guest: Breakdown) -> None:
    """An NVMe disk on the machine itself, and as a guest's own: the same program, OS and disk."""
    of_native, of_guest = means_ns(native), means_ns(guest)
    result = compare([run_of(native)], [run_of(guest)])
    (group,) = result.groups
    found = {row.layer.name: row for row in group.rows if row.layer}
    both = {"syscall", "wakeup.interrupt", "wakeup.runqueue", "block.Q2D"}
    assert {f"guest/{row}" for row in both} | {"device.data", "device.flush"} == {
        name for name, row in found.items() if row.change.a_ns
    }
    for row in both:
        one = found[f"guest/{row}"]
        assert one.change.a_ns == pytest.approx(of_native[row])
        assert one.change.b_ns == pytest.approx(of_guest[f"guest/{row}"])
        assert not one.unlike
    for row in ("device.data", "device.flush"):
        assert found[row].change.a_ns == pytest.approx(of_native[row])
        assert found[row].change.b_ns == 0
    assert {name for name, row in found.items() if not row.change.a_ns} == {
        f"host/{row}" for row in ("kvm.exit", "vcpu.runqueue", "kvm.inject", "vfio.device")
    }
    changes = sum(row.change.change_ns for row in group.rows)
    assert changes == pytest.approx(
        guest.writes.latency_ns.mean() - native.writes.latency_ns.mean()
    )
    assert result.beside == Beside("a", "guest")
    assert compare([run_of(guest)], [run_of(native)]).beside == Beside("b", "guest")


def tops(run: Run, machine: str) -> Run:
    """With another machine that writes."""
    first = replace(run.layers[0], name=f"{machine}/syscall", machine=machine)
    return replace(run, layers=(first, *run.layers[1:]))


def test_who_has_no_like_stays_by_itself(native: Breakdown, guest: Breakdown) -> None:
    one, other = run_of(native), run_of(guest)
    for a, b in (
        ([one], [one]),
        ([other], [tops(other, "client")]),
        # Whose of two it would be beside, nobody knows.
        ([one], [other, tops(other, "client")]),
        # Some have one machine, some several.
        ([one], [other, one]),
    ):
        assert aligned(a, b) == (a, b, None)
