# SPDX-License-Identifier: Apache-2.0
"""On which of its host's CPUs each virtual CPU ran, with known truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chain import HALT, SVM, VCPU, VMM, Chain, Costs
from tests.stitch.test_chain import analysed


def told(path: Path, cpus: list[int], host_cpus: int = 8) -> list[str]:
    """``cpus``: where a second virtual CPU entered guest mode, one time after the other."""
    chain = Chain()
    writer = chain.writer()
    for _ in range(4):
        chain.durable_write(writer, 8192, Costs())
    for number in range(host_cpus):
        chain.host.builder.cpu(number, number)
    for number, cpu in enumerate(cpus):
        time_ns = 1_000_000 + 10_000 * number
        chain.host.builder.add("kvm_exit", time_ns=time_ns, cpu=cpu, tid=VCPU + 1, vcpu=1,
                               exit_ns=time_ns - 500, tgid=VMM, reason=HALT, isa=SVM)  # fmt: skip
        # Another machine's is none of it, nor is one of which it is not told which it was.
        chain.host.builder.add("kvm_exit", time_ns=time_ns, cpu=6, tid=VCPU + 2, vcpu=0xFFFF_FFFF,
                               exit_ns=time_ns - 500, tgid=VMM, reason=HALT, isa=SVM)  # fmt: skip
        chain.host.builder.add("kvm_exit", time_ns=time_ns, cpu=5, tid=9_000, vcpu=1,
                               exit_ns=time_ns - 500, tgid=8_999, reason=HALT, isa=SVM)  # fmt: skip
    return [line for line in analysed(chain, path).quality.virtual if "ran on" in line]


FIRST = "guest: virtual CPU 0 ran on CPU 0 of host"


@pytest.mark.parametrize(
    ("cpus", "where"),
    [
        ([3, 3, 3], "CPU 3"),
        ([3, 3, 3, 2], "CPUs 3 (75%), 2 (25%), as it entered guest mode (moved once),"),
        (
            [0, 1, 1, 2, 1, 3, 4, 1, 0, 0],
            "CPUs 1 (40%), 0 (30%), 2 (10%), 2 others, as it entered guest mode (moved 7 times),",
        ),
    ],
)
def test_where_virtual_cpus_ran(tmp_path: Path, cpus: list[int], where: str) -> None:
    assert told(tmp_path, cpus) == [FIRST, f"guest: virtual CPU 1 ran on {where} of host"]


def test_a_host_with_one_cpu_has_no_places(tmp_path: Path) -> None:
    assert told(tmp_path, [0, 0], host_cpus=1) == []
