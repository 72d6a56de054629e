# SPDX-License-Identifier: Apache-2.0
"""On which of its host's CPUs each virtual CPU ran, with known truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.recording import open_recording
from tests.chain import HALT, SVM, VCPU, VMM, Chain, Costs
from tests.stitch.test_chain import analysed

RECORDINGS = Path(__file__).parents[1] / "recordings"


Places = Sequence[tuple[int, int, int]]


def told(path: Path, cpus: list[int], host_cpus: int = 8, places: Places = ()) -> list[str]:
    """``cpus``: where a second virtual CPU entered guest mode, one time after the other.

    ``places``: of each CPU of the host, its node, package and core.
    """
    chain = Chain()
    for cpu, place in enumerate(places):
        chain.host.builder.lies(cpu, *place)
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
    return [line for line in analysed(chain, path).quality.virtual if "virtual CPU" in line]


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


@pytest.mark.parametrize(
    ("told", "allowed"),
    [
        (["0"], ", pinned"),
        (["0-7"], ""),
        # More than there are: those that may come yet.
        (["0-63", "0-63"], ""),
        (["0,2-3"], ", allowed 0,2-3"),
        (["0-7", "0"], ", allowed 0-7, then 0"),
        ([], ""),
    ],
)
def test_where_virtual_cpus_may_run(tmp_path: Path, told: list[str], allowed: str) -> None:
    chain = Chain()
    chain.durable_write(chain.writer(), 8192, Costs())
    for cpu in range(8):
        chain.host.builder.cpu(cpu, cpu)
    for cpus in told:
        chain.host.builder.may_run_on(VCPU, cpus)
    # Of the VMM's others, nothing is said.
    chain.host.builder.may_run_on(VMM, "1")
    lines = [line for line in analysed(chain, tmp_path).quality.virtual if "virtual CPU" in line]
    assert lines == [FIRST + allowed]


def test_a_host_with_one_cpu_has_no_places(tmp_path: Path) -> None:
    assert told(tmp_path, [0, 0], host_cpus=1) == []


# Two sockets with a node each, two cores in each, two threads in each of these.
TWO_NODES = [(cpu // 4, cpu // 4, cpu // 2 % 2) for cpu in range(8)]


@pytest.mark.parametrize(
    ("cpus", "where", "shared"),
    [
        ([7, 7], "CPU 7 (node 1)", False),
        # The same number of another socket's core.
        ([5, 5], "CPU 5 (node 1)", False),
        ([1, 1], "CPU 1 (node 0)", True),
        (
            [1, 1, 1, 6],
            "CPUs 1 (75%, node 0), 6 (25%, node 1), as it entered guest mode (moved once),",
            True,
        ),
        ([0, 0], "CPU 0 (node 0)", False),
    ],
)
def test_nodes_and_cores_are_told(
    tmp_path: Path, cpus: list[int], where: str, shared: bool
) -> None:
    line = "guest: virtual CPUs 0 and 1 shared a core (SMT): CPUs 0 and 1 of host"
    assert told(tmp_path, cpus, places=TWO_NODES) == [
        "guest: virtual CPU 0 ran on CPU 0 (node 0) of host",
        f"guest: virtual CPU 1 ran on {where} of host",
        *[line] * shared,
    ]


def test_of_a_large_guest_a_few_are_told(tmp_path: Path) -> None:
    chain = Chain()
    chain.durable_write(chain.writer(), 8192, Costs())
    for cpu in range(8):
        chain.host.builder.lies(cpu, 0, 0, cpu // 2)
    for vcpu in range(1, 64):
        chain.host.builder.add("kvm_exit", time_ns=1_000_000 + vcpu, cpu=vcpu % 8, tid=VCPU + vcpu,
                               vcpu=vcpu, exit_ns=1_000_000, tgid=VMM, reason=HALT,
                               isa=SVM)  # fmt: skip
    lines = [line for line in analysed(chain, tmp_path).quality.virtual if "virtual CPU" in line]
    assert lines[3:5] == [
        "guest: virtual CPU 3 ran on CPU 3 of host",
        "guest: where its 60 other virtual CPUs ran: --by vcpu_placement",
    ]
    assert lines[5].endswith(", 56 and 57 shared a core (SMT): CPUs 0 and 1 of host")
    assert len(lines) == 4 + 1 + 4


def test_one_node_is_not_worth_a_word(tmp_path: Path) -> None:
    """Where neither node nor core is told, nothing is made of that."""
    unknown = [(-1, -1, -1)] * 8
    assert told(tmp_path, [1, 1], places=unknown) == [
        FIRST, "guest: virtual CPU 1 ran on CPU 1 of host",
    ]  # fmt: skip


def placement_of(path: Path, moved_at: int, guest_cpu: int = 0) -> dict[str, int]:
    """How many of four writes there are of each; from the one numbered ``moved_at`` on, virtual
    CPU 0 enters guest mode on CPU 6."""
    chain = Chain()
    for cpu, place in enumerate(TWO_NODES):
        chain.host.builder.lies(cpu, *place)
    writer = chain.writer()
    for number in range(4):
        before = len(chain.host.builder._rows["kvm_exit"]) if number else 0
        chain.durable_write(writer, 8192 * number, Costs())
        for row in chain.host.builder._rows["kvm_exit"][before:]:
            row["cpu"] = 0 if number < moved_at else 6
    for row in chain.guest.builder._rows["syscall"]:
        row["cpu"] = guest_cpu
    summary = summarise(analysed(chain, path), "vcpu_placement")
    return {group.name: group.count for group in summary.groups}


def test_writes_are_grouped_by_where_their_virtual_cpu_was(tmp_path: Path) -> None:
    """The write amid which it moved ended where it moved to."""
    assert placement_of(tmp_path, moved_at=3) == {
        "virtual CPU 0 on CPU 0 (node 0)": 3, "virtual CPU 0 on CPU 6 (node 1)": 1,
    }  # fmt: skip


def test_where_a_cpu_without_a_virtual_one_was_is_not_known(tmp_path: Path) -> None:
    assert placement_of(tmp_path, moved_at=4, guest_cpu=3) == {"unknown": 4}


def test_who_is_no_guest_has_no_placement(tmp_path: Path) -> None:
    breakdown = analyse(open_recording(RECORDINGS / "four_methods"))
    assert [group.name for group in summarise(breakdown, "vcpu_placement").groups] == ["unknown"]
