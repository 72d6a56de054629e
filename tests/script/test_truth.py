# SPDX-License-Identifier: Apache-2.0
"""What bpftrace printed of a world whose account is known: the same table as of a recording."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.cli import status_of
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from tests.script.printed import BEGIN, printed
from tests.synthetic import O_DSYNC, Commit, Request, World, Writer, device

DISK = device(254, 0)
PARTITION = device(254, 1)
PAUSE_NS = 3_000_000


def imported(text: str | bytes, place: Path, *options: str, status: int = 0) -> Path:
    """The recording that the command makes of it."""
    file, directory = place / "out.txt", place / "recording"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert status_of(["import", str(file), "-o", str(directory), *options]) == status
    return directory


def analysed(text: str, place: Path, *, status: int = 0) -> Breakdown:
    return analyse(open_recording(imported(text, place, status=status)))


def account(found: Breakdown, write: int) -> Counter[str]:
    rows = {layer.name: int(found.time_ns[row, write]) for row, layer in enumerate(found.layers)}
    return Counter({name: ns for name, ns in rows.items() if ns}) + Counter(
        {"residual": int(found.residual_ns[write])}
    )


def writes(count: int = 20) -> tuple[World, Writer]:
    """Direct ones, each with a flush; the thread is preempted now and then."""
    world = World()
    writer = Writer(world, 100, DISK, 1_000_000, file_device=PARTITION)
    for number in range(count):
        writer.now += PAUSE_NS
        writer.enter()
        writer.cpu(2_000 + number)
        writer.data(
            Request(scheduler=None, device=30_000 + 100 * number, sector=4096 + 16 * number)
        )
        if number % 3 == 0:
            writer.preempted(5_000)
        writer.flush()
        writer.cpu(500)
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()
    return world, writer


def commits(count: int = 10) -> tuple[World, Writer]:
    """fsyncs that wait for the journal's thread, which writes blocks that it can be known by."""
    world = World()
    writer = Writer(world, 100, DISK, 1_000_000)
    world.target(900, 2, b"jbd2/vda-8", kind=2)
    for number in range(count):
        writer.now += PAUSE_NS
        writer.enter()
        writer.cpu(1_000)
        entered = writer.now
        writer.floor = "fs"
        writer.cpu(700)
        commit = Commit(world, DISK, writer.now, 7 + number).run(
            3_000, 2_000, [Request(scheduler=None, meta=True, sector=9_000 + 16 * number)]
        )
        writer.wait_for(commit)
        writer.cpu(300)
        writer.synced(entered, None)
        writer.floor = "syscall"
        writer.cpu(400)
        writer.leave("fsync")
        writer.finish()
    return world, writer


@pytest.mark.parametrize("made", [writes, commits])
@pytest.mark.parametrize("seed", [None, 1])
def test_rows_are_the_account(made: object, seed: int | None, tmp_path: Path) -> None:
    world, writer = made()  # type: ignore[operator]
    text = printed(world, shuffled=Random(seed) if seed else None)
    found = analysed(text, tmp_path)
    assert len(found.writes) == len(writer.truth)
    for write, truth in enumerate(writer.truth):
        assert account(found, write) == truth, write
    assert not found.quality.lost
    assert not found.quality.damage
    assert found.quality.ties["time"] == 0


def test_a_request_whose_end_was_not_seen_is_its_bios_all_the_same(tmp_path: Path) -> None:
    """Bios are tied by place: the next request that holds these sectors is another write's."""
    world = World()
    writer = Writer(world, 100, DISK, 1_000_000)
    for _ in range(2):
        writer.now += PAUSE_NS
        writer.enter()
        writer.cpu(2_000)
        writer.data(Request(scheduler=None, device=30_000, sector=4096))
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()
    world.builder._rows["block_rq_complete"].pop(0)
    found = analysed(printed(world), tmp_path)
    unseen, seen = (account(found, write) for write in range(2))
    assert seen == writer.truth[1]
    assert unseen["syscall"] == seen["syscall"]
    assert unseen["residual"] >= 30_000
    assert "block.Q2D" not in unseen
    assert "device.data" not in unseen


def test_a_lost_line_is_known_by_its_number(tmp_path: Path) -> None:
    world, _ = writes(200)
    found = analysed(printed(world, lost="block_rq_complete"), tmp_path, status=7)
    assert sum(found.quality.lost.values()) == 1
    left_out = sum(found.left_out.values())
    assert 1 <= left_out < 200
    assert len(found.writes) == 200 - left_out


def test_the_last_lines_of_a_cpu_may_be_lost(tmp_path: Path) -> None:
    world, _ = writes()
    lines = printed(world).split("\n")
    last = max(n for n, line in enumerate(lines) if "sys_exit_pwrite64" in line)
    found = analysed("\n".join(lines[:last] + lines[last + 1 :]), tmp_path, status=7)
    assert sum(found.quality.lost.values()) == 1


def test_what_was_cut_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world, _ = writes(200)
    text = printed(world)
    cut = text[: text.index("\nend ") - 10]
    found = analysed(cut, tmp_path, status=7)
    assert "did not end by itself" in capsys.readouterr().err
    assert any("still runs, was killed, or" in line for line in found.quality.damage)
    # The line that is there in part is none: nor is it damage of its own.
    assert not any("could not be read" in line for line in found.quality.damage)


def test_names_of_devices_and_who_wrote(tmp_path: Path) -> None:
    world, _ = writes()
    world.target(101, 5, b"\x1b]0;x\nend 9\xff")
    found = open_recording(imported(printed(world), tmp_path))
    (trace,) = found.traces()
    assert trace.facts.file_system(PARTITION) == "ext4"
    assert trace.facts.disk_of(PARTITION) == DISK
    assert trace.facts.device_name(DISK) == "vda"
    assert trace.facts.disk_of(device(259, 1)) == device(259, 0)
    assert trace.env["hostname"] == "db1"
    assert trace.env["machine_cpus"] == 4
    assert b"\x1b]0;x\nend 9\xff" in trace.points["thread"]["comm"].tolist()
    assert found.created == "2026-09-21T14:13:20+00:00"


def test_what_was_split_is_one_bio(tmp_path: Path) -> None:
    """Of 64 KiB, the disk takes 32 at once: both requests are the write's."""
    call = "0 0 100 1090000 1000000 100 266338304 12 9001 0 -1 0 65536"
    lines = f"""\
block_bio_queue 1 0 100 1010000 266338304 4096 128 WS 0
block_split 2 0 100 1012000 266338304 4096 4160 WS
tracepoint:block:block_rq_issue 3 0 100 1020000 266338304 4096 64 WS
tracepoint:block:block_rq_issue 4 0 100 1025000 266338304 4160 64 WS
sched_resume 8 0 100 1082000 1030000 2 1081000 0 0
tracepoint:block:block_rq_complete 5 0 0 1060000 266338304 4096 64 WS
tracepoint:block:block_rq_complete 6 0 0 1080000 266338304 4160 64 WS
tracepoint:syscalls:sys_exit_write {call.replace("0 0 100 1090000", "9 0 100 1090000", 1)}
thread 0 0 100 999000 100 1 {"61" * 16} {"61" * 16}
block_split 7 0 7 1080500 266338304 77 88 WS
end 1100000
@n[0]: 10
"""
    found = analysed(BEGIN + lines, tmp_path)
    assert account(found, 0)["device.data"] == 60_000
    assert account(found, 0)["wakeup.interrupt"] == 1_000
    assert account(found, 0)["residual"] == 0


def test_flushes_end_in_the_order_in_which_they_were_asked_for(tmp_path: Path) -> None:
    """Two threads ask for one while another is at work: both end with the next, one by one."""
    lines = [BEGIN]
    number = 0

    def line(word: str, tid: int, time: int, cells: str) -> None:
        nonlocal number
        lines.append(f"{word} {number} 0 {tid} {time} {cells}\n")
        number += 1

    for tid in (1, 2):
        line("thread", tid, 900 + tid, f"{tid} 1 {'61' * 16} {'61' * 16}")
    for tid, queued in ((1, 10_000), (2, 12_000)):
        line("block_bio_queue", tid, queued, "266338304 0 0 FWS 0")
    line("tracepoint:block:block_rq_issue", 77, 20_000, "266338304 0 0 FF")
    line("tracepoint:block:block_rq_complete", 0, 60_000, f"266338304 {2**64 - 1} 0 FF")
    for tid, done in ((1, 61_000), (2, 63_000)):
        line("tracepoint:block:block_rq_complete", 0, done, "266338304 0 0 WS")
        line("sched_resume", tid, done + 1_500, f"15000 2 {done + 500} 0 0")
    for tid in (1, 2):
        line(
            "tracepoint:syscalls:sys_exit_fdatasync", tid, 70_000 + tid,
            f"9000 {tid} 266338304 12 1 0 0 0 0",
        )  # fmt: skip
    lines.append(f"end 80000\n@n[0]: {number}\n")
    found = analysed("".join(lines), tmp_path)
    assert len(found.writes) == 2
    for write in range(2):
        rows = account(found, write)
        assert rows["device.flush"] == 40_000
        assert rows["residual"] == 0


def test_what_has_data_and_asks_for_a_flush_ends_at_its_place(tmp_path: Path) -> None:
    """A journal's last block, which ends without data once the flush behind it is done."""
    lines = f"""\
thread 0 0 1 900 1 1 {"61" * 16} {"61" * 16}
block_bio_queue 1 0 1 10000 266338304 0 0 FWS 0
block_bio_queue 2 0 7 11000 266338304 96 8 FWFSM 1
tracepoint:block:block_rq_complete 3 0 0 50000 266338304 104 0 WSM
tracepoint:block:block_rq_complete 4 0 0 61000 266338304 0 0 WS
end 80000
@n[0]: 5
"""
    (trace,) = open_recording(imported(BEGIN + lines, tmp_path)).traces()
    queued = trace.points["block_bio_queue"]["bio_key"].tolist()
    assert len(set(queued)) == 2
    assert trace.points["block_rq_complete"]["bio_key"].tolist() == queued[::-1]


def test_what_the_script_does_not_tell_is_said(tmp_path: Path) -> None:
    world, _ = writes()
    text = printed(world) + "@unseen[tracepoint:syscalls:sys_enter_io_uring_enter]: 12\n"
    found = analysed(text, tmp_path)
    told = {gap.layer: gap for gap in found.quality.not_observed}
    assert "their writes are not analysed" in told["io_uring_enter (12)"].reason
    assert told["kernel workers"].merged_into == "block.Q2D and unattributed"
    assert told["block.Q2G to I2D"].merged_into == "block.Q2D"
    assert not any("--detail" in gap.reason for gap in found.quality.not_observed)
    assert found.quality.cost
    assert found.quality.cost.unmeasured == "bpftrace"


def test_the_same_lines_are_the_same_recording(tmp_path: Path) -> None:
    world, _ = writes()
    places = [tmp_path / name for name in ("one", "other")]
    for place in places:
        place.mkdir()
        imported(printed(world), place)
    one, other = (
        {path.relative_to(place): path.read_bytes() for path in place.rglob("*") if path.is_file()}
        for place in places
    )
    assert one == other


def test_no_time_is_left_over_of_a_row_that_is_not_told(tmp_path: Path) -> None:
    """Fields that the script does not know are not there, instead of zero."""
    world, _ = writes()
    (trace,) = open_recording(imported(printed(world), tmp_path)).traces()
    assert set(trace.points["syscall"]["offset_bytes"].tolist()) == {-1}
    assert "above_key" not in trace.points["block_bio_queue"].fields
    assert "waker_context" not in trace.points["sched_resume"].fields
    assert "by_kernel_thread" not in trace.points["block_rq_complete"].fields
    assert np.count_nonzero(trace.points["sched_resume"]["waker_cpu"]) == 0
