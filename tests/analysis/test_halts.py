# SPDX-License-Identifier: Apache-2.0
"""What virtual CPUs cost their host while they have nothing to do, with known truth."""

from __future__ import annotations

from pathlib import Path

from tests.chain import HALT, NPF, VCPU, VMM, Chain, Costs
from tests.stitch.test_chain import analysed

MS = 1_000_000


def told(path: Path, *halts: tuple[int, int, int, int], reason: int = HALT) -> list[str]:
    """``halts``: how long each lasted (us), when its thread left the CPU (-1: never), when it was
    woken (-1: it could run throughout), when it ran again."""
    chain = Chain()
    writer = chain.writer()
    for number in range(4):
        chain.durable_write(writer, 8192 * number, Costs())
    begin = writer.now + 100_000
    for lasted, off, wake, on in halts:
        if off >= 0:
            woken = begin + wake * 1000 if wake >= 0 else 0
            chain.host.emit("sched_resume", begin + on * 1000, VCPU, off_ns=begin + off * 1000,
                            wake_ns=woken, waker_tid=0, state=int(wake >= 0),
                            subject_tid=VCPU)  # fmt: skip
        chain.exit(begin, begin + lasted * 1000, reason=reason)
        begin += lasted * 1000 + 10_000
    return [line for line in analysed(chain, path).quality.virtual if "nothing to do" in line]


def test_what_idle_virtual_cpus_cost_is_told(tmp_path: Path) -> None:
    """Two looked until there was something again, one of them without its CPU for 200 us; one went
    to sleep after 50 us, and was woken: it was on the CPU for 60 us."""
    (line,) = told(
        tmp_path, (500, -1, -1, -1), (700, 100, -1, 300), (1000, 50, 980, 990), (500, -1, -1, -1)
    )
    assert line.startswith(
        "guest: its virtual CPUs had nothing to do 4 times: they kept CPUs of host busy for "
        "1.56 ms of that ("
    )
    assert line.endswith(" of one), and in 3 of these did not sleep (halt polling)")


def test_who_sleeps_at_once_costs_nothing(tmp_path: Path) -> None:
    assert told(tmp_path, (50_000, 2, 49_990, 49_998)) == []


def test_what_a_virtual_cpu_left_for_otherwise_is_no_halt(tmp_path: Path) -> None:
    assert told(tmp_path, (5_000, -1, -1, -1), reason=NPF) == []


def test_for_how_long_virtual_cpus_were_stopped_is_told(tmp_path: Path) -> None:
    """Twice, by a signal to their process, and once by their control group; what they slept for
    else, and what its other threads did, is none of that."""
    chain = Chain()
    writer = chain.writer()
    for number in range(4):
        chain.durable_write(writer, 8192 * number, Costs())
    begin = writer.now + 100_000
    interruptible, stopped, freezable = 1, 0x104, 0x2001
    for thread, state, stood in (
        (VCPU, stopped, 2_000), (VCPU, interruptible, 9_000), (VCPU, stopped, 220),
        (VMM, stopped, 7_000), (VCPU, freezable, 1_500), (VCPU, freezable, 60),
    ):  # fmt: skip
        end = begin + stood * MS
        chain.host.emit("sched_resume", end + 30_000, thread, off_ns=begin, wake_ns=end,
                        waker_tid=1, state=state, subject_tid=thread)  # fmt: skip
        chain.exit(begin, end + 40_000, reason=HALT)
        begin = end + 100_000
    told = analysed(chain, tmp_path).quality.virtual
    assert [line for line in told if "stopped" in line or "still" in line] == [
        "guest: its virtual CPUs were stopped on host for 2.22 s: what of that is in writes is in "
        "kvm.exit, or in the way back",
        "guest: its virtual CPUs stood still on host for 1.50 s, frozen (cgroup.freeze) or halted "
        "by QEMU: what of that is in writes is in kvm.exit, or in the way back",
    ]
