# SPDX-License-Identifier: Apache-2.0
"""Mounts and block devices come from the recording; what is missing or broken is said."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import pytest

from iostrata.trace.clocks import TscOffset
from iostrata.trace.fact_files import read_facts
from iostrata.trace.facts import BlockDevice, CpuPlace, Facts, Met, Mount, Striping, device_key
from iostrata.trace.images import Extent
from iostrata.trace.read import read_trace
from tests.builder import TraceBuilder

VDA, VDA1, LOOP = device_key("253:0"), device_key("253:1"), device_key("7:0")

MOUNTINFO = """\
21 25 0:19 / /proc rw,nosuid shared:5 - proc proc rw
25 1 253:1 / / rw,relatime shared:1 master:2 - ext4 /dev/vda1 rw,discard
60 25 0:31 /sub /mnt/a\\040b rw - btrfs /dev/loop0 rw,space_cache=v2
"""
BLOCK = """\
dev\tname\tparent_dev\tscheduler\twrite_cache\tfua\trotational\tlogical_block_size\tbacking\tlower_devs
265289728\tvda\t0\tnone\twrite back\t0\t1\t512\t-\t-
265289729\tvda1\t265289728\tnone\twrite back\t0\t1\t512\t-\t-
7340032\tloop0\t0\tmq-deadline\twrite through\t1\t0\t4096\t/var/image\t265289729
"""


def facts_directory(path: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (path / name).write_text(text)
    return path


def test_facts_are_read(tmp_path: Path) -> None:
    facts, defects = read_facts(facts_directory(tmp_path, mountinfo=MOUNTINFO, block=BLOCK))
    assert defects == []
    assert facts.mounts[2] == Mount(
        31, "/mnt/a b", "btrfs", "/dev/loop0", "rw,space_cache=v2", "/sub"
    )
    assert facts.file_system(VDA1) == "ext4"
    assert facts.file_system(31) == "btrfs"
    assert facts.file_system(99) == "unknown"
    assert facts.disk_of(VDA1) == facts.disk_of(VDA) == VDA
    assert facts.disk_of(99) == 99
    assert facts.device_name(VDA1) == "vda1"
    assert facts.device_name(device_key("8:16")) == "8:16"
    assert facts.blocks[LOOP] == BlockDevice(
        LOOP, "loop0", 0, "mq-deadline", "write through", True, False, 4096, "/var/image", (VDA1,)
    )


def test_how_device_mapper_lays_out_an_array_is_told(tmp_path: Path) -> None:
    told = ("128,2,5+0,6+2048", "0,1,5+4096", "-", "0,1,5+0,6+0@0+8;0,1,5+8,7+0@16+24",
            "128,0,5+0", "128", "128,2,5", "128,2,5+-1", "0,1,5+0@8")  # fmt: skip
    lines = "".join(f"{dev}\tdm-{dev}\t{text}\n" for dev, text in enumerate(told, 1))
    facts, defects = read_facts(facts_directory(tmp_path, block=f"dev\tname\tstriping\n{lines}"))
    assert [facts.blocks[dev].striping for dev in (1, 2, 3, 4)] == [
        (Striping(128, 2, ((5, 0), (6, 2048))),),
        (Striping(0, 1, ((5, 4096),)),),
        (),
        (Striping(0, 1, ((5, 0), (6, 0)), 0, 8), Striping(0, 1, ((5, 8), (7, 0)), 16, 24)),
    ]
    assert defects == ["facts/block: line 6 is no block device, nor are 4 more"]


@pytest.mark.parametrize("text", ["128,2,5+0,5+0", "0,1,5+0,1+0", "128,2,\u0665+0", "1_28,2,5+0"])
def test_a_layout_that_no_device_mapper_tells_is_refused(text: str, tmp_path: Path) -> None:
    """A disk that is there twice, an array on itself, digits that no recorder writes."""
    block = f"dev\tname\tstriping\n1\tdm-1\t{text}\n"
    facts, defects = read_facts(facts_directory(tmp_path, block=block))
    assert not facts.blocks
    assert defects == ["facts/block: line 2 is no block device"]


def test_where_processors_lie_is_told(tmp_path: Path) -> None:
    lines = "cpu\tnode\tpackage\tcore\n3\t1\t0\t2\n4\t-\t-\t-\n5\t1\t0\n6\t-1\t0\t0\n"
    facts, defects = read_facts(facts_directory(tmp_path, topology=lines))
    assert facts.topology == {3: CpuPlace(1, 0, 2), 4: CpuPlace(None, None, None)}
    assert defects == ["facts/topology: line 4 is no CPU, nor is one more"]


def test_where_threads_may_run_is_told_once(tmp_path: Path) -> None:
    lines = "7\t0-3,8\n8\t2\n7\t0-3,8\n8\t0-3\n9\t3-0\n9\t1,1\n9\t\n9\t0-99999\n9\t0-1-2\n"
    facts, defects = read_facts(facts_directory(tmp_path, affinity=lines))
    assert facts.affinity == {7: ("0-3,8",), 8: ("2", "0-3")}
    assert defects == ["facts/affinity: line 5 is no thread's CPUs, nor are 4 more"]


def test_processors_have_apic_ids_and_broken_lines_are_named(tmp_path: Path) -> None:
    TraceBuilder().cpu(0, 0).cpu(3, 4).write(tmp_path)
    assert read_facts(tmp_path / "facts")[0].apic_ids == {0: 0, 3: 4}
    facts, defects = read_facts(facts_directory(tmp_path, cpus="cpu\tapic_id\n1\t8\n2\t-\n"))
    assert facts.apic_ids == {1: 8}
    assert defects == ["facts/cpus: line 3 is no CPU"]


@pytest.mark.parametrize("cpu", ["-5", "65536", "4294967295"])
def test_a_cpu_that_no_kernel_has_is_named(cpu: str, tmp_path: Path) -> None:
    """Whoever was recorded may say anything: there is a row for each CPU below the last."""
    facts, defects = read_facts(facts_directory(tmp_path, cpus=f"cpu\tapic_id\n{cpu}\t0\n1\t8\n"))
    assert facts.apic_ids == {1: 8}
    assert defects == ["facts/cpus: line 2 is no CPU"]


def test_stacks_are_read_from_the_innermost_and_broken_lines_are_named(tmp_path: Path) -> None:
    TraceBuilder().stack(7, "schedule", "io_schedule").write(tmp_path)
    assert read_facts(tmp_path / "facts")[0].stacks == {7: ("schedule", "io_schedule")}
    facts, defects = read_facts(facts_directory(tmp_path, stacks="stack\tfunctions\nx\ty\n9\tz\n"))
    assert facts.stacks == {9: ("z",)}
    assert defects == ["facts/stacks: line 2 is no stack"]


def test_columns_are_found_by_name_and_may_be_absent(tmp_path: Path) -> None:
    facts, defects = read_facts(facts_directory(tmp_path, block="name\tdev\nsda\t8388608\n"))
    assert defects == []
    assert facts.blocks == {8 << 20: BlockDevice(8 << 20, "sda")}


def test_broken_lines_are_named_and_the_others_kept(tmp_path: Path) -> None:
    facts, defects = read_facts(
        facts_directory(tmp_path, mountinfo="nonsense\n" + MOUNTINFO, block=BLOCK + "x\ty\n")
    )
    assert defects == [
        "facts/mountinfo: line 1 is no mount",
        "facts/block: line 5 is no block device",
    ]
    assert len(facts.mounts) == len(facts.blocks) == 3


def test_no_facts_are_no_defect(tmp_path: Path) -> None:
    trace = read_trace(TraceBuilder().write(tmp_path))
    assert trace.damage == ()
    assert trace.facts.device_name(VDA) == "253:0"


def test_the_builder_writes_facts(tmp_path: Path) -> None:
    builder = TraceBuilder().mount(VDA1, "/mnt/a\\ b", "xfs", "/dev/vda1", "rw,sync")
    builder.block(
        VDA, "vda", scheduler="none", write_cache="write back", fua=False, rotational=True
    )
    builder.block(VDA1, "vda1", parent_key=VDA).block(LOOP, "loop0", lower_keys=(VDA1, 5))
    builder.card("eth0", "virtio_net")
    facts = read_trace(builder.write(tmp_path)).facts
    assert facts.cards == {"eth0": "virtio_net"}
    assert facts.mounts == (Mount(VDA1, "/mnt/a\\ b", "xfs", "/dev/vda1", "rw,sync"),)
    assert facts.blocks[VDA].fua is False
    assert facts.blocks[VDA].rotational is True
    assert facts.blocks[LOOP].lower_keys == (VDA1, 5)
    assert facts.blocks[LOOP].fua is None


@pytest.mark.parametrize(
    ("backing", "before", "after", "on"),
    [
        ("", (VDA, 5), (VDA,), (VDA, 5)),
        ("", (VDA,), (VDA, 5), (VDA, 5)),
        ("", (VDA,), (5,), (VDA, 5)),
        ("", (VDA,), (), (VDA,)),
        ("/disk.img", (VDA, 5), (VDA,), ()),
    ],
    ids=["a path went", "a path came", "moved", "on nothing", "another file"],
)
def test_what_a_device_was_on_that_is_told_again(
    backing: str, before: tuple[int, ...], after: tuple[int, ...], on: tuple[int, ...],
    tmp_path: Path,
) -> None:  # fmt: skip
    builder = TraceBuilder().block(LOOP, "dm-0", lower_keys=before)
    builder.block(LOOP, "dm-0", lower_keys=after, backing=backing).write(tmp_path)
    assert read_trace(tmp_path).facts.blocks[LOOP].lower_keys == on


def test_two_disks_that_had_one_number_one_after_the_other(tmp_path: Path) -> None:
    """What was true of the first one only was told of both."""
    both = BlockDevice(5, "", scheduler="none", logical_block_bytes=512, rotational=False)
    one = replace(
        both, name="nvme0n1", write_cache="write back", fua=True, transport="pcie", pci="1:2"
    )
    other = replace(both, name="nvme1n1", write_cache="write through", fua=False, transport="tcp")
    builder = TraceBuilder()
    for block in (one, other, other):
        builder.block(**asdict(block))
    builder.write(tmp_path)
    found = read_trace(tmp_path).facts.blocks[5]
    assert found == replace(both, name="nvme0n1 or nvme1n1", shared=True)


def test_clocks(tmp_path: Path) -> None:
    """KVM's offsets with AMD's and Intel's ratios, or none, and exchanges of clocks."""
    facts, defects = read_facts(
        facts_directory(
            tmp_path,
            tsc="70 0 -5 4294967296\n70 1 -5 -\n71 0 9 351843720888320\nno vm\n72 0 0 7\n",
            exchange="sent_ns\tremote_ns\treceived_ns\n10\t500\t12\n13\t503\t11\n14\t504\n20\t510\t22\n",
        )
    )
    assert facts.tsc == (
        TscOffset(70, 0, -5),
        TscOffset(70, 1, -5),
        TscOffset(71, 0, 9, Fraction(5, 4)),
    )
    assert facts.exchange.sent_ns.tolist() == [10, 20]
    assert facts.exchange.remote_ns.tolist() == [500, 510]
    assert facts.exchange.received_ns.tolist() == [12, 22]
    assert defects == [
        "facts/tsc: line 4 is no virtual CPU's offset, nor is one more",
        "facts/exchange: line 3 is no exchange of clocks, nor is one more",
    ]


def test_a_clock_that_no_machine_has_is_no_exchange(tmp_path: Path) -> None:
    """Whoever answers may say anything: its sums would not fit into 64 bits."""
    rows = [f"1\t{(1 << 63) - 1}\t2", f"1\t5\t{1 << 62}", "-9\t5\t7", "3\t-1\t4", "3\t0\t4"]
    facts, defects = read_facts(facts_directory(tmp_path, exchange="\n".join([*rows, ""])))
    assert facts.exchange.sent_ns.tolist() == [3]
    assert defects == ["facts/exchange: line 1 is no exchange of clocks, nor are 3 more"]


def test_a_file_system_with_a_number_of_its_own_is_named_by_its_disk() -> None:
    """btrfs has one; so has overlay, which writes to the file system of its upper directory."""
    anonymous = Facts(
        mounts=(
            Mount(VDA1, "/", "ext4", "/dev/vda1", "rw"),
            Mount(31, "/mnt", "btrfs", "/dev/loop0", "rw"),
            Mount(40, "/one", "overlay", "overlay", "rw,lowerdir=/l,upperdir=/mnt/up,workdir=/w"),
            Mount(41, "/two", "overlay", "overlay", "rw,lowerdir=/l,upperdir=/mntup,workdir=/w"),
            Mount(42, "/three", "overlay", "overlay", "rw,lowerdir=/l"),
            Mount(43, "/nfs", "nfs4", "server:/x", "rw"),
            Mount(44, "/four", "overlay", "overlay", "rw,upperdir=/five/up"),
            Mount(45, "/five", "overlay", "overlay", "rw,upperdir=/four/up"),
        ),
        blocks={
            VDA: BlockDevice(VDA, "vda"),
            VDA1: BlockDevice(VDA1, "vda1", parent_key=VDA),
            LOOP: BlockDevice(LOOP, "loop0"),
        },
    )
    names = [anonymous.device_name(key) for key in (31, 40, 41, 42, 43, 99)]
    assert names == ["loop0", "loop0", "vda1", "0:42", "0:43", "0:99"]
    assert [anonymous.disk_of(key) for key in (31, 40, 41, 43)] == [LOOP, LOOP, VDA, 43]
    assert anonymous.device_name(44) == "0:44"


class Counted(tuple[Mount, ...]):
    """Mounts that know how often somebody went through them."""

    times = 0

    def __iter__(self) -> Iterator[Mount]:
        self.times += 1
        return super().__iter__()


def test_mounts_are_gone_through_once_however_many_devices_are_asked_for() -> None:
    keys = [device_key(f"0:{number}") for number in range(200)]
    mounts = Counted(Mount(key, f"/m{key}", "btrfs", f"/dev/d{key}", "rw") for key in keys)
    blocks = {key + (8 << 20): BlockDevice(key + (8 << 20), f"d{key}") for key in keys}
    facts = Facts(mounts=mounts, blocks=blocks)
    before = mounts.times
    for key in keys:
        assert facts.file_system(key) == "btrfs"
        assert facts.path_of(key, "/a") == f"/m{key}/a"
        assert facts.device_name(key) == f"d{key}"
    assert mounts.times - before < 10


def test_what_is_on_top_of_what_a_device_is_stacked_on() -> None:
    """A partition of a loop device, whose file is on a disk."""
    part, disk = LOOP + 1, 266338304
    facts = Facts((), {
        LOOP: BlockDevice(LOOP, "loop0", lower_keys=(disk,)),
        part: BlockDevice(part, "loop0p1", parent_key=LOOP),
        disk: BlockDevice(disk, "vda"),
    })  # fmt: skip
    assert facts.on_top(part) == {part, LOOP}
    assert facts.below(part) == {part, LOOP, disk}


def test_a_device_of_two_file_systems_one_after_the_other() -> None:
    """The recorder tells of what is mounted as it begins, and as it ends."""
    first, second = (Mount(LOOP, f"/{kind}", kind, "/dev/loop0", "rw") for kind in ("ext4", "xfs"))
    facts = Facts((first, second, first), {LOOP: BlockDevice(LOOP, "loop0")})
    assert facts.file_system(LOOP) == "unknown"
    assert facts.file_system_name(LOOP) == "ext4 or xfs"
    assert facts.path_of(LOOP, "/wal/1") == "loop0:/wal/1"
    alone = Facts((second, second), facts.blocks)
    assert (alone.file_system(LOOP), alone.path_of(LOOP, "/wal/1")) == ("xfs", "/xfs/wal/1")


def test_an_overlay_of_another_mount_namespace(tmp_path: Path) -> None:
    """Its mount is in no table that the recorder sees; what it writes to was met."""
    files = {
        "block": "dev\tname\tparent_dev\n266338304\tvda\t0\n",
        "mountinfo": "27 1 254:0 / / rw - ext4 /dev/vda rw\n",
        "overlays": "dev\tupper_dev\n39\t266338304\n40 1\n",
    }
    facts, defects = read_facts(facts_directory(tmp_path, **files))
    assert facts.device_name(39) == "vda"
    assert facts.disk_of(39) == 266338304
    assert facts.below(39) == facts.on_top(39) == {39, 266338304}
    assert facts.file_system(39) == "overlay"
    assert facts.file_system_name(39) == "overlay (ext4)"
    assert facts.file_system_name(266338304) == "ext4"
    assert facts.path_of(39, "/wal/1") == "overlay 0:39:/wal/1"
    assert defects == ["facts/overlays: line 3 is no overlay"]


@pytest.mark.parametrize("kind", ["pipe", "endless", "long", "directory"])
def test_a_fact_that_is_no_file_is_a_defect(tmp_path: Path, kind: str) -> None:
    """It is neither waited for nor read without end."""
    fact = tmp_path / "facts" / "block"
    fact.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(fact)
    elif kind == "endless":
        fact.symlink_to("/dev/zero")
    elif kind == "directory":
        fact.mkdir()
    else:
        with fact.open("wb") as file:
            file.truncate(1 << 30)
    _, defects = read_facts(fact.parent)
    assert len(defects) == 1
    assert defects[0].startswith("facts/block: cannot be read")


def test_what_a_qemu_limits(tmp_path: Path) -> None:
    """By process, told twice; it may have no name."""
    lines = "70\tvm1\n71\t-\n70\tvm1\nx\tvm2\n73\n"
    facts, defects = read_facts(facts_directory(tmp_path, throttled=lines))
    assert facts.throttled == {70: "vm1", 71: ""}
    assert defects == ["facts/throttled: line 4 is no virtual machine, nor is one more"]


def test_where_an_image_keeps_what(tmp_path: Path) -> None:
    """Of each file as it was at each time; a server's numbers of files may need all 64 bits."""
    large = (1 << 64) - 5
    lines = f"9\t5\t7\t0\t65536\t327680\n9\t5\t7\t-\t65536\t0\n9\t5\t{large}\t0\t8\t16\n"
    facts, defects = read_facts(facts_directory(tmp_path, image_maps=lines))
    assert not defects
    assert facts.image_maps == {
        (5, 7): (Extent(9, 0, 65536, 327680), Extent(9, -1, 65536, 0)),
        (5, -5): (Extent(9, 0, 8, 16),),
    }


@pytest.mark.parametrize(
    ("fact", "what"),
    [
        ("mountinfo", "mount"), ("block", "block device"), ("cpus", "CPU"),
        ("tsc", "virtual CPU's offset"), ("exchange", "exchange of clocks"), ("stacks", "stack"),
        ("cgroups", "control group"), ("connections", "connection"), ("echoes", "echo"),
        ("overlays", "overlay"), ("throttled", "virtual machine"), ("vmms", "virtual machine"),
        ("images", "image"), ("backed", "image over another"),
        ("image_maps", "range of an image"), ("cards", "network card"), ("topology", "CPU"),
        ("affinity", "thread's CPUs"),
    ],
)  # fmt: skip
def test_a_file_that_is_all_broken_is_one_defect(fact: str, what: str, tmp_path: Path) -> None:
    lines = "a\tb\tc\n" + "nonsense\n" * 5000
    facts, defects = read_facts(facts_directory(tmp_path, **{fact: lines}))
    first = 2 if fact in ("block", "connections") else 1
    assert defects == [f"facts/{fact}: line {first} is no {what}, nor are {5001 - first} more"]
    assert vars(facts).keys() == vars(Facts()).keys()
    assert not any(len(one) for one in vars(facts).values())


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        ("exchange", "1 99999999999999999999 3"),
        ("exchange", "1 9223372036854775808 3"),
        ("tsc", f"1 0 {1 << 63} 1"),
        ("cpus", f"1 {'9' * 5000}"),
        ("stacks", f"{'9' * 5000}\tf"),
        ("echoes", f"192.0.2.1\t{1 << 64}\t5"),
        ("throttled", f"{1 << 32}\tvm1"),
        ("vmms", f"{1 << 32}\tvm1"),
        ("images", f"{1 << 32}\t5\tqcow2"),
        ("images", f"5\t{1 << 64}\tqcow2"),
        ("image_maps", f"1\t5\t7\t0\t65536\t{1 << 63}"),
        ("image_maps", "1\t5\t7\t-65536\t65536\t0"),
    ],
)
def test_a_number_that_no_word_holds_is_a_defect(tmp_path: Path, fact: str, line: str) -> None:
    path = tmp_path / "facts" / fact
    path.parent.mkdir()
    path.write_text(f"{line}\n")
    _, (defect,) = read_facts(path.parent)
    assert defect.startswith(f"facts/{fact}: line 1")


def test_overlays_on_overlays_on_overlays() -> None:
    """Linux stacks two of them; what a file says is anybody's."""
    mounts = [Mount(1, "/0", "ext4", "none", "rw", "/")]
    mounts += [
        Mount(n + 1, f"/{n}", "overlay", "none", f"rw,upperdir=/{n - 1}/up", "/")
        for n in range(1, 500)
    ]
    facts = Facts(mounts=tuple(mounts))
    assert facts.below(500) >= set(range(1, 501))
    assert facts.file_system_name(500) == "overlay (overlay)"
    assert facts.file_system_name(2) == "overlay (ext4)"


def test_what_an_overlay_writes_to_is_what_lies_on_top_there_unless_it_was_told() -> None:
    mounts = (
        Mount(1, "/", "ext4", "/dev/vda1", "rw"),
        Mount(2, "/a/b", "xfs", "/dev/vdb", "rw"),
        Mount(3, "/a/b", "tmpfs", "tmpfs", "rw"),
        Mount(4, "/a/b", "overlay", "overlay", "rw,upperdir=/a/b/c/up"),
        Mount(5, "/x", "overlay", "overlay", "rw,upperdir=up"),
        Mount(6, "/y", "overlay", "overlay", "rw,upperdir=/a/bc"),
    )
    told = {6: (Met("overlay", 2),)}
    assert [Facts(mounts=mounts).written_to(key) for key in (4, 5, 6)] == [3, 5, 1]
    assert Facts(mounts=mounts, met=told).written_to(6) == 2


@pytest.mark.parametrize(
    ("kinds", "name"), [(["overlay"] * 2, "overlay 0:39:/f"), (["btrfs", "overlay"], "0:39:/f")]
)
def test_a_file_of_a_number_that_was_several_is_not_said_to_be_of_an_overlay(
    kinds: list[str], name: str
) -> None:
    assert Facts(met={39: tuple(map(Met, kinds))}).path_of(39, "/f") == name
