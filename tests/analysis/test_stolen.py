# SPDX-License-Identifier: Apache-2.0
"""What a hypervisor took of a virtual machine's CPUs is said, beside what its host says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.ten_seconds import SECOND, of_ten_seconds
from tests.chain import Chain
from tests.stitch.test_chain import analysed as analysed_of
from tests.stitch.test_chain import without_a_cpu


def test_what_the_host_says_stands_beside_it(tmp_path: Path) -> None:
    """30 writes, in each of which the virtual CPU waits for 50 us."""
    chain = Chain()
    until = without_a_cpu(chain)
    samples = ((900_000, 7_000), (until[-1] + 20_000, 1_507_000))
    chain.guest.builder.recorded(until[-1] + 20_000, "stolen_ns", samples)
    lines = analysed_of(chain, tmp_path).quality.virtual
    (line,) = (line for line in lines if "steal" in line)
    assert line.startswith("guest: a hypervisor gave 1.50 ms of its CPUs' time")
    assert line.endswith(
        "by host, they waited 1.50 ms for a CPU, in writes (vcpu.runqueue) and else"
    )


def test_only_while_the_machine_was_asked_too(tmp_path: Path) -> None:
    """Its recording is of the last third of the host's."""
    chain = Chain()
    until = without_a_cpu(chain)
    samples = ((until[19] + 1_000, 0), (until[-1] + 20_000, 500_000))
    chain.guest.builder.recorded(until[-1] + 20_000, "stolen_ns", samples)
    lines = analysed_of(chain, tmp_path).quality.virtual
    (line,) = (line for line in lines if "steal" in line)
    assert "they waited 500 us for a CPU, in writes" in line


def told(stolen_ns: tuple[int, ...]) -> tuple[str, ...]:
    return of_ten_seconds("stolen_ns", stolen_ns).virtual


@pytest.mark.parametrize(
    ("stolen_ns", "line"),
    [
        ((5 * SECOND, 0, 0, 5 * SECOND + 340_000_000), "340 ms of its CPUs' time (3.4 % of one)"),
        ((0, 12 * SECOND), "12.0 s of its CPUs' time (120.0 % of one)"),
        ((5 * SECOND, 5 * SECOND + 90_000_000), ""),
        ((5 * SECOND, 0, 0), ""),
        ((0, 0), ""),
        ((7 * SECOND, 5 * SECOND), ""),
        ((), ""),
    ],
)
def test_it_is_told_of(stolen_ns: tuple[int, ...], line: str) -> None:
    lines = told(stolen_ns)
    assert len(lines) == bool(line)
    assert all(line in one for one in lines)
