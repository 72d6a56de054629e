# SPDX-License-Identifier: Apache-2.0
"""What no write consists of is counted, and said where a write slept beside it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from iostrata.analysis import Beside, prepare, quality_of
from iostrata.cli import status_of
from iostrata.columns import Ints
from iostrata.errors import STATUS_LOSSES, NothingToAnalyse
from iostrata.hops import lift
from iostrata.model import LeftOver, NotObserved
from iostrata.recording import open_recording
from iostrata.stitch import window
from iostrata.trace import Facts, layout
from iostrata.trace.layout import THREAD_JOURNAL
from tests.reading import O_DIRECT
from tests.stitch.test_truth import analysed
from tests.synthetic import O_DSYNC, Commit, Request, World, Writer, device, submit, write

DISK, OTHER_DISK, NFS = device(8, 0), device(8, 16), device(0, 44)
STRANGER = 66
RECORDINGS = Path(__file__).parents[1] / "recordings"


def sleeper(world: World, disk: int = DISK, duration: int = 400_000, tid: int = 100) -> Writer:
    """One write that sleeps for a reason that nothing tells, from 1.1 us on."""
    writer = Writer(world, tid, disk, 1_000)
    writer.enter()
    writer.cpu(100)
    writer.sleep(duration, waker=STRANGER, row=None)
    writer.cpu(100)
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    writer.finish()
    return writer


def commit_call(world: World, begin: int, end: int, request_key: int = 0) -> None:
    key = 0xFFFF_8884_0000_0000
    world.emit("nfs_call", begin, 67, call_key=key, inode=99, dev=NFS, offset_bytes=0,
               size_bytes=0, stable=0, operation=2, request_key=request_key)  # fmt: skip
    world.emit("rpc_call", end, 67, call_key=key, send_ns=begin + 10, ready_ns=end - 20,
               reply_ns=end - 10, xid=7, connection=1)  # fmt: skip


def test_a_call_of_nobody_while_a_write_slept_on_its_mount_is_left_over() -> None:
    world = World()
    sleeper(world, NFS)
    commit_call(world, 50_000, 250_000)
    quality = analysed(world).quality
    assert quality.left_over == (LeftOver("local", "COMMIT call", "0:44", 1, 200_000),)
    assert quality.background == (LeftOver("local", "COMMIT call", "0:44", 1, 200_000),)
    assert quality.left_over_share == pytest.approx(200_000 / 402_200)


@pytest.mark.parametrize("known", [True, False])
def test_a_call_for_another_request_is_not_left_over(known: bool) -> None:
    """For one that no write consists of; a loop device's the write may well wait for."""
    world, key = World(), 0x70
    sleeper(world, NFS)
    if known:
        world.target(120)
        world.emit("aio_submit", 40_000, 120, enter_ns=39_000, iocb_key=key, inode=99, dev=NFS,
                   open_flags=O_DIRECT, size_bytes=65_536, opcode=1)  # fmt: skip
    commit_call(world, 50_000, 250_000, key)
    quality = analysed(world).quality
    assert len(quality.background) == 1
    assert len(quality.left_over) == (not known)


def test_sync_sleeps_beside_every_device() -> None:
    world = World()
    writer = Writer(world, 100, DISK, 1_000)
    writer.enter()
    writer.sleep(400_000, waker=STRANGER, row=None)
    writer.leave("sync")
    Commit(world, OTHER_DISK, 50_000, transaction=7).run(20_000, 80_000, [])
    found = analysed(world)
    (left,) = found.quality.left_over
    assert (left.kind, left.place, left.count) == ("journal commit", "8:16", 1)
    assert found.writes.names["device"] == ("all",)


@pytest.mark.parametrize("own", [True, False])
def test_another_file_system_of_the_disk_commits_for_nobody_here(own: bool) -> None:
    """A partition beside the one that is written to; its requests would be in the way, not it."""
    world, here, beside = World(), device(8, 1), device(8, 2)
    world.builder.block(DISK, "sda")
    for number, key in enumerate((here, beside), 1):
        world.builder.block(key, f"sda{number}", parent_key=DISK)
    sleeper(world, here)
    Commit(world, here if own else beside, 50_000, transaction=7).run(20_000, 80_000, [])
    quality = analysed(world).quality
    assert [left.place for left in quality.left_over] == ["sda1"] * own
    assert [left.place for left in quality.background] == ["sda1" if own else "sda2"]


def test_each_instant_of_a_sleep_counts_once() -> None:
    """Two commits at once on the disk that one write waits for."""
    world = World()
    sleeper(world)
    Commit(world, DISK, 50_000, transaction=7).run(20_000, 80_000, [])
    Commit(world, DISK, 100_000, transaction=8, tid=901).run(20_000, 79_400, [])
    quality = analysed(world).quality
    (left,) = quality.left_over
    assert (left.kind, left.count, left.time_ns) == ("journal commit", 2, 150_000)
    assert quality.left_over_share == pytest.approx(150_000 / 402_200)


@pytest.mark.parametrize(
    "case", ["another disk", "awake", "own request", "in a queue", "a read", "another process"]
)
def test_background_is_counted_and_not_left_over(case: str) -> None:
    world = World()
    match case:
        case "another disk":
            sleeper(world)
            Commit(world, OTHER_DISK, 50_000, transaction=7).run(20_000, 80_000, [])
        case "awake":
            sleeper(world)
            Commit(world, DISK, 600_000, transaction=7).run(20_000, 80_000, [])
            world.emit("clock_sample", 2_000_000, 0)
            Writer(world, 101, DISK, 3_000_000).cpu(1)
        case "own request":
            writer = Writer(world, 100, DISK, 1_000)
            writer.enter()
            writer.data(Request(queue=300, scheduler=None, device=400_000))
            writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
            Commit(world, DISK, 2_000, transaction=7).run(20_000, 80_000, [])
        case "in a queue":
            writer = Writer(world, 100, DISK, 1_000)
            writer.enter()
            writer.data(Request(queue=300, scheduler=400_000, device=30_000))
            writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
            Commit(world, DISK, 2_000, transaction=7).run(20_000, 80_000, [])
        case "a read":
            sleeper(world)
            submit(world, DISK, STRANGER, 20_000, Request(read=True), held=True)
        case _:
            sleeper(world)
            world.target(55)
            stranger = Writer(world, 55, DISK, 20_000)
            stranger.data(Request(device=100_000))
    quality = analysed(world).quality
    assert quality.left_over == ()
    assert quality.left_over_share == 0
    kept = case != "awake"  # a commit after the last write is in nobody's window
    assert len(quality.background) == kept


def test_whoever_looks_at_one_write_is_told_what_was_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not what was beside another one."""
    world = World()
    writer = sleeper(world, NFS)
    commit_call(world, 50_000, 250_000)
    writer.enter()
    writer.sleep(400_000, waker=STRANGER, row=None)
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    recording = str(write(world, tmp_path / "machine"))
    assert status_of(["timeline", recording, "--id", "1"]) == STATUS_LOSSES
    line = "left over   1 COMMIT call, 200 us, while writes slept on 0:44"
    assert line in capsys.readouterr().out.splitlines()
    assert status_of(["timeline", recording, "--id", "2"]) == 0
    assert "left over" not in capsys.readouterr().out
    for number, told in (("1", [200_000]), ("2", [])):
        status_of(["timeline", recording, "--id", number, "--json", "-"])
        quality = json.loads(capsys.readouterr().out)["quality"]
        assert [left["time_ns"] for left in quality.get("left_over", [])] == told


def test_of_writes_at_once_each_is_told_of_its_own_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three that sleep beside one call, one is told of its sleep, and all of all."""
    world = World()
    for number in range(3):
        writer = Writer(world, 100 + number, NFS, 1_000 + 10 * number)
        writer.enter()
        writer.cpu(100)
        writer.sleep(400_000, waker=STRANGER, row=None)
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    commit_call(world, 50_000, 250_000)
    recording = str(write(world, tmp_path / "machine"))
    for which, told in ((["--id", "2"], "200 us"), (["--slowest", "3"], "600 us")):
        assert status_of(["timeline", recording, *which]) == STATUS_LOSSES
        line = f"left over   1 COMMIT call, {told}, while writes slept on 0:44"
        assert line in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", ["ext4_journal", "xfs_log", "nfs_direct_commit"])
def test_what_single_writes_are_told_of_is_together_what_all_are(name: str) -> None:
    found = prepare(open_recording(RECORDINGS / name))
    quality = quality_of(found.path, 0, {})

    def told_ns(rows: Ints) -> int:
        return sum(left.time_ns for left in Beside(found, rows).told(quality).left_over)

    every = np.arange(len(found.writes))
    assert told_ns(every) == sum(told_ns(every[row : row + 1]) for row in every) > 0


def test_on_each_machine_a_sleep_is_of_the_piece_that_asked() -> None:
    """What the others asked of the server slept there, too."""
    found = prepare(open_recording(RECORDINGS / "nfs_direct_commit"))
    (top,) = found.tops
    rows = top.windows[0].rows
    assert len(top.windows) == 1

    def asleep(told: NDArray[np.bool_] | None) -> Counter[tuple[str, int, int]]:
        return Counter(
            (audit.machine, begin, end)
            for audit in lift(found.path.graph, top.node, rows, told=told).audits
            for begin, end in zip(
                audit.idle.begin_ns.tolist(), audit.idle.end_ns.tolist(), strict=True
            )
        )

    each = [asleep(np.arange(len(rows)) == row) for row in range(len(rows))]
    assert sum(each, Counter()) == asleep(None)
    assert sum(bool(one) for one in each) > 5


def test_what_is_part_of_another_write_is_not_beside_one(tmp_path: Path) -> None:
    """Also where that one is in another window, as it began after the first one had ended."""
    world = World()
    first = Writer(world, 102, DISK, 500)
    first.enter()
    first.cpu(600)
    first.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    sleeper(world)
    commit = Commit(world, DISK, 50_000, transaction=7).run(20_000, 80_000, [])
    world.target(commit.tid, kind=THREAD_JOURNAL)
    other = Writer(world, 101, DISK, 20_000)
    other.enter()
    since = other.now
    other.wait_for(commit, interrupt=500)
    other.synced(since, commit)
    other.leave("fsync")
    recording = write(world, tmp_path / "machine")
    with mock.patch.multiple(window, WINDOW_PIECES=1, MARGIN_NS=0):
        found = prepare(open_recording(recording))
        rows = np.flatnonzero(found.writes.tid == 100)
        quality = quality_of(found.path, 0, {})
        assert Beside(found, rows).told(quality).left_over == ()


@pytest.mark.parametrize(("duration", "status"), [(200_000, STATUS_LOSSES), (3_000, 0)])
def test_it_is_printed_and_changes_the_exit_status(
    duration: int, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World()
    sleeper(world, NFS)
    commit_call(world, 50_000, 50_000 + duration)
    world.builder.write(tmp_path / "recording")
    assert status_of(["replay", str(tmp_path / "recording")]) == status
    took = "200 us" if status else "3.00 us"
    line = f"left over   1 COMMIT call, {took}, while writes slept on 0:44\n"
    assert line in capsys.readouterr().out
    assert status_of(["replay", str(tmp_path / "recording"), "--json", "-"]) == status
    quality = json.loads(capsys.readouterr().out)["quality"]
    assert quality["left_over"] == [
        {"machine": "local", "kind": "COMMIT call", "place": "0:44", "count": 1,
         "time_ns": duration}
    ]  # fmt: skip
    assert quality["left_over_share"] == round(duration / 402_200, 6)


def test_what_lies_below_an_overlay_is_on_the_way_down() -> None:
    """The write is on the overlay, the journal on the file system that holds its changes."""
    overlay = device(0, 57)
    world = World()
    world.builder.mount(DISK, "/", "ext4", "/dev/sda").mount(
        overlay, "/merged", "overlay", "overlay", "rw,lowerdir=/low,upperdir=/up/u,workdir=/up/w"
    ).mount(OTHER_DISK, "/up", "ext4", "/dev/sdb")
    sleeper(world, overlay)
    Commit(world, OTHER_DISK, 50_000, transaction=7).run(20_000, 80_000, [])
    Commit(world, DISK, 50_000, transaction=8, tid=901).run(20_000, 80_000, [])
    (left,) = analysed(world).quality.left_over
    assert (left.kind, left.count, left.place) == ("journal commit", 1, "8:16")


@pytest.mark.parametrize(
    ("kind", "gaps"), [("f2fs", ["no point of f2fs is recorded"]), ("ext4", []), ("overlay", [])]
)
def test_a_file_system_that_has_no_points_is_told_of(kind: str, gaps: list[str]) -> None:
    world = World()
    world.builder.mount(DISK, "/data", kind, "/dev/sda")
    sleeper(world)
    told = analysed(world).quality.not_observed
    assert [gap.reason for gap in told if gap.layer == "fs"] == gaps


@pytest.mark.parametrize("program", ["syscall_exit", "nfs_write_begin"])
def test_a_file_system_whose_points_are_not_in_the_kernel_is_told_of(program: str) -> None:
    """As one in a module without BTF: of its programs the recorder tells nothing at all."""
    world = World()
    world.builder.mount(DISK, "/data", "nfs4", "server:/export")
    world.builder.add("probe", time_ns=1, program=program.encode(), error=0)
    sleeper(world)
    told = analysed(world).quality.not_observed
    gaps = [] if program.startswith("nfs") else ["no point of nfs4 is recorded"]
    assert [gap.reason for gap in told if gap.layer == "fs"] == gaps


def test_what_no_filter_could_decide_about_is_told_of() -> None:
    """Each kind's last event tells of all before it."""
    world = World()
    sleeper(world)
    for time_ns, kind, count in (
        (1, layout.UNSEEN_UNDECIDED, 2),
        (2, layout.UNSEEN_SYNC, 1),
        (3, layout.UNSEEN_UNDECIDED, 7),
        (4, layout.UNSEEN_MAPPINGS, 3),
    ):
        world.builder.add("unseen", time_ns=time_ns, kind=kind, count=count, dev=device(0, 45))
    told = {gap.layer: gap.reason for gap in analysed(world).quality.not_observed}
    assert told["calls that --device cannot decide about"] == (
        "7 left out, as their disk is not known; last unknown at 0:45"
    )
    assert told["calls of sync"] == "1 left out, as they are for all disks (--device)"
    assert told["msync"] == "of 3 calls over several mappings, only the first one's file is known"
    assert "calls of 32-bit programs" not in told


@pytest.mark.parametrize(
    ("name", "transport", "kind", "server"),
    [
        ("nbd0", "", "nbd", "its server"),
        ("rbd1", "", "RBD", "Ceph"),
        ("etherd!e0.1", "", "AoE", "its target"),
        ("sda", "iscsi", "iSCSI", "its target"),
        ("sda", "fc", "Fibre Channel", "its target"),
        ("nvme0n1", "tcp", "NVMe over TCP", "its target"),
        ("nvme0n1", "rdma", "NVMe over RDMA", "its target"),
        ("nvme0n1", "pcie", "", ""),
        ("nvme0n1", "loop", "", ""),
        ("sda", "", "", ""),
    ],
)
def test_a_networks_disk_is_told_of(name: str, transport: str, kind: str, server: str) -> None:
    world = World()
    world.builder.block(DISK, name, transport=transport)
    writer = Writer(world, 100, DISK, 1_000)
    writer.enter()
    writer.data(Request())
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    line = f"{name} is a network disk ({kind}): what the network and {server} take is in device"
    assert analysed(world).quality.virtual == ((line,) if kind else ())


@pytest.mark.parametrize(
    ("limits", "queue_ns", "told"),
    [
        (("wbt", "io.cost"), 90_000, ["limits by wbt, io.cost"]),
        (("wbt",), 90_000, ["limits by wbt"]),
        (("wbt",), 300, []),
        ((), 90_000, []),
    ],
)
def test_limits_that_no_point_tells_of_are_said(
    limits: tuple[str, ...], queue_ns: int, told: list[str]
) -> None:
    """Of older recordings, which do not tell who slept to get a request."""
    gaps = limits_told(limits, Request(queue=queue_ns, scheduler=None), older=True)
    assert [gap.layer for gap in gaps] == told
    assert all(gap.reason.startswith("vda may hold requests back") for gap in gaps)
    assert all(gap.merged_into == "block.Q2D" for gap in gaps)


def limits_told(
    limits: tuple[str, ...], request: Request, older: bool = False
) -> list[NotObserved]:
    """``older``: the recorder knew of no point that tells who slept to get a request."""
    world = World()
    world.builder.block(DISK, "vda", queue_limits=limits)
    world.builder.block(DISK + 16, "vdb", queue_limits=("wbt", "io.cost"))
    if older:
        world.builder.unknown = frozenset({"block_bio_asleep"})
    writer = Writer(world, 100, DISK, 1_000)
    writer.enter()
    writer.data(request)
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    return [gap for gap in analysed(world).quality.not_observed if "limits" in gap.layer]


def test_writes_that_no_program_tells_of_are_in_no_row() -> None:
    """As io_uring's on Linux 5.10; what another missing program tells is time of other rows."""
    world = World()
    sleeper(world)
    for program in (b"uring_submit_sqe", b"uring_queue_async_work", b"block_merge"):
        world.builder.add("probe", time_ns=1, program=program, error=-13)
    told = {gap.layer: gap for gap in analysed(world).quality.not_observed}
    gap = told["uring: uring_submit_sqe, uring_queue_async_work"]
    assert gap.reason == (
        "their programs did not attach (Permission denied): io_uring writes are not analysed"
    )
    assert gap.merged_into == ""
    assert told["block: block_merge"].merged_into == "the layers around it"


@pytest.mark.parametrize(
    ("limits", "asleep_ns", "told"),
    [
        (("wbt", "io.cost"), 90_000, ["limits by wbt, io.cost: which of them"]),
        (("io.cost",), 90_000, ["limits by io.cost: whether it"]),
        (("wbt",), 0, []),
        ((), 90_000, []),
    ],
)
def test_limits_are_told_of_where_who_asked_slept(
    limits: tuple[str, ...], asleep_ns: int, told: list[str]
) -> None:
    """A disk whose limit cost nothing is no matter, however long its scheduler took."""
    request = Request(queue=100_000, scheduler=None, asleep=asleep_ns)
    gaps = limits_told(limits, request)
    behind = " held requests for vda back, or none was free"
    assert [f"{gap.layer}: {gap.reason}" for gap in gaps] == [line + behind for line in told]
    assert all(gap.merged_into == "block.Q2G" for gap in gaps)


def test_a_frozen_queue_is_no_limit() -> None:
    """And a disk that hardly kept anybody waiting has nothing to do with it."""
    world = World()
    for number, asleep_ns in ((0, 90_000), (1, 1_000)):
        world.builder.block(DISK + 16 * number, f"vd{'ab'[number]}", queue_limits=("wbt",))
        writer = Writer(world, 100 + number, DISK + 16 * number, 1_000)
        writer.enter()
        writer.data(Request(queue=100_000, scheduler=None, asleep=asleep_ns, frozen=not number))
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    told = [gap for gap in analysed(world).quality.not_observed if gap.merged_into == "block.Q2G"]
    assert [f"{gap.layer}: {gap.reason}" for gap in told] == [
        "why queues were frozen: what froze vda, for 90.2 us of sleeps: settings, or a reset"
    ]


@pytest.mark.parametrize(
    "case", ["nobody knows", "its syncs are seen", "a disk's", "a disk's node"]
)
def test_a_file_system_that_was_mounted_later_is_told_of(case: str) -> None:
    """Its kind is not known, but that nothing of it was recorded is."""
    anonymous, world = device(0, 39), World()
    world.builder.mount(DISK, "/data", "ext4", "/dev/sda")
    match case:
        case "its syncs are seen":
            world.emit("nfs_sync_file", 90_000, 100, enter_ns=20_000, inode=12, dev=anonymous)
        case "a disk's":
            anonymous = OTHER_DISK
    sleeper(world, anonymous if case != "a disk's node" else 0)
    told = analysed(world).quality.not_observed
    wanted = ["no point of what is mounted at 0:39 is recorded"] if case == "nobody knows" else []
    assert [gap.reason for gap in told if gap.layer == "fs"] == wanted


def test_what_lies_below_a_device_is_asked_for_once_however_many_there_are() -> None:
    """As often for each of many devices as for one: not again for each place."""
    asked = []
    for count in (4, 16):
        world = World()
        for number in range(count):
            disk = device(8, 16 * number)
            world.builder.block(disk, f"disk{number}")
            sleeper(world, disk, tid=100 + number)
            Commit(world, disk, 50_000, transaction=7, tid=901 + number).run(20_000, 80_000, [])
        with mock.patch.object(Facts, "below", autospec=True, side_effect=Facts.below) as below:
            quality = analysed(world).quality
        assert len(quality.left_over) == count
        asked.append(below.call_count / count)
    assert asked[1] <= asked[0]


@pytest.mark.parametrize("count", [1, 8, 9, 40])
def test_disks_that_came_and_went_are_told_of_in_a_few_lines(count: int) -> None:
    world = World()
    world.builder.block(DISK, "sda")
    for number in range(count):
        writer = Writer(world, 100 + number, device(8, 16 + number), 1_000)
        writer.enter()
        writer.data(Request())
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    lines = [gap.layer for gap in analysed(world).quality.not_observed if "below" in gap.layer]
    assert len(lines) == (count if count <= 8 else 1)
    if count > 8:
        assert lines == [f"below 8:16, 8:17, 8:18 and {count - 3} more"]


@pytest.mark.parametrize(
    ("kind", "told", "hint"),
    [
        (layout.UNSEEN_UNDECIDED, "cannot decide about: 7 left out", "without --device"),
        (layout.UNSEEN_SYNC, "calls of sync: 7 left out", "without --device"),
        (layout.UNSEEN_COMPAT, "calls of 32-bit programs: the first ones of 7", "once more"),
    ],
)
def test_a_recording_of_nothing_says_what_it_knows_that_it_lacks(
    kind: int, told: str, hint: str
) -> None:
    world = World()
    world.builder.add("unseen", time_ns=1, kind=kind, count=7, dev=0)
    with pytest.raises(NothingToAnalyse, match=told) as raised:
        analysed(world)
    assert raised.value.hint == f"record {hint}"
