# SPDX-License-Identifier: Apache-2.0
"""Redaction: the same numbers, and no name in any byte."""

from __future__ import annotations

import errno
import json
import struct
from importlib import import_module
from ipaddress import IPv6Address, ip_address
from pathlib import Path

import numpy as np
import pytest

import iostrata
from iostrata import cli
from iostrata.analysis.arithmetic import _echoes
from iostrata.analysis.connections import address_of
from iostrata.attribute import summarise
from iostrata.cli import status_of
from iostrata.model import Breakdown
from iostrata.recording import open_recording, redact
from iostrata.trace.echo import HEAD
from iostrata.trace.pseudonyms import Pseudonyms
from tests.report.test_golden import RECORDINGS
from tests.synthetic import O_DSYNC, Request, World, Writer, device

SECRET = b"s3cr3t"
KEPT = sorted(path.parent for path in RECORDINGS.glob("*/recording.json"))
DISK, OVERLAY = device(8, 0), device(0, 39)


def bytes_of(directory: Path) -> dict[str, bytes]:
    """Of each file, with its own name."""
    return {
        str(path.relative_to(directory)): str(path.relative_to(directory)).encode()
        + path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def alike(one: Breakdown, other: Breakdown) -> None:
    """All numbers, and which writes have the same name."""
    for name in ("begin_ns", "latency_ns", "size_bytes", "device_key", "inode", "tid", "tgid"):
        assert getattr(one.writes, name).tolist() == getattr(other.writes, name).tolist()
    assert np.array_equal(one.time_ns, other.time_ns)
    assert np.array_equal(one.residual_ns, other.residual_ns)
    assert [layer.row for layer in one.layers] == [layer.row for layer in other.layers]
    assert list(one.left_out.values()) == list(other.left_out.values())
    for column, codes in one.writes.codes.items():
        pairs = set(zip(codes.tolist(), other.writes.codes[column].tolist(), strict=True))
        assert len(pairs) == len({pair[0] for pair in pairs}) == len({pair[1] for pair in pairs})
    assert one.quality.lost == other.quality.lost
    assert one.quality.ties == other.quality.ties
    assert one.quality.unsure_syncs == other.quality.unsure_syncs
    assert one.quality.partial_syncs == other.quality.partial_syncs
    assert one.quality.cost == other.quality.cost
    # A file that is no recorder's is not taken along.
    damage = [line for line in one.quality.damage if "no stream of this trace" not in line]
    assert len(damage) == len(other.quality.damage)


@pytest.mark.parametrize("recording", KEPT, ids=lambda path: path.name)
def test_it_replays_to_the_same_numbers(recording: Path, tmp_path: Path) -> None:
    redact(open_recording(recording), tmp_path / "redacted")
    alike(iostrata.open(recording).analyse(), iostrata.open(tmp_path / "redacted").analyse())
    text = json.loads((recording / "recording.json").read_text())
    # Words of the command, and what the machines' traces call it.
    words = {word.encode() for word in text.get("command") or () if len(word) > 5}
    found = bytes_of(tmp_path / "redacted")
    assert not [(name, word) for name, data in found.items() for word in words if word in data]


def secretive(path: Path) -> Path:
    """A recording that has the secret in every place that has room for one."""
    world = World()
    builder = world.builder
    builder.env |= {"hostname": "s3cr3t-host", "command": "run s3cr3t", "filter": "--comm s3cr3t",
                    "boot_id": "s3cr3t-boot", "of_later": "s3cr3t"}  # fmt: skip
    builder.mount(DISK, "/srv/s3cr3t dir", "ext4", "/dev/mapper/s3cr3t-lv", root="/s3cr3t")
    builder.mount(OVERLAY, "/s3cr3t", "overlay", "s3cr3t",
                  options="rw,lowerdir=/s3cr3t/l,upperdir=/srv/s3cr3t\\040dir/up")  # fmt: skip
    builder.block(DISK, "sda").block(device(7, 0), "loop0", backing="/srv/s3cr3t dir/image")
    builder.throttled(70, "s3cr3t").throttled(71, "")
    builder.vmm(70, "s3cr3t").vmm(72, "").image(DISK, 9, "qcow2")
    builder.card("s3cr3t", "virtio_net")
    builder.cgroup(7, "/s3cr3t.slice/docker-" + "5ec4e7" * 10 + "5ec4.scope")
    writer = Writer(world, 100, DISK, 1_000)
    for _ in range(3):
        writer.enter()
        writer.data(Request())
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()
    thread = builder._rows["thread"][0]
    thread["comm"], thread["process"] = b"s3cr3t-thread", b"s3cr3t\0s3cr3t"
    parts = ((0, 0, b"wal-s3cr3t-that-is-longer-t"), (1, 0, b"han-s3cr3t"), (2, 1, b"s3cr3t"))
    for part, component, text in parts:
        builder.add("file_name", time_ns=10 + part, tid=5, inode=12, dev=DISK, root_dev=DISK,
                    part=part, component=component, text=text)  # fmt: skip
    builder.add("file_name", time_ns=20, tid=5, inode=12, dev=DISK, root_dev=DISK, part=3,
                component=2, last=1)  # fmt: skip
    machine = path / "s3cr3t-machine"
    builder.write(machine)
    (machine / "facts" / "connections").write_text(
        "mount_point\tsource\taddress\tport\tlocal_port\tmin_rtt_us\n"
        "/mnt/s3cr3t\ts3cr3t:/export\ts3cr3t.example\t2049\t800\t77\n"
    )
    (machine / "facts" / "echoes").write_text(
        "address\tsent_ns\tround_trip_ns\ns3cr3t.example\t5\t9\n"
    )
    (machine / "facts" / "of_a_later_version").write_text("s3cr3t\n")
    (machine / "notes.txt").write_text("s3cr3t\n")
    stream = next(one for one in sorted(machine.glob("cpu_*")) if one.stat().st_size)
    stream.write_bytes(stream.read_bytes() + SECRET.ljust(128, b"!"))
    described = {"name": "s3cr3t-machine", "role": "local", "directory": "s3cr3t-machine",
                 "note": "s3cr3t went away"}  # fmt: skip
    told = {"format": "iostrata.recording/1", "created": "", "machines": [described],
            "command": ["s3cr3t", "--s3cr3t"]}  # fmt: skip
    (path / "recording.json").write_text(json.dumps(told))
    return path


def test_no_name_remains_in_any_byte(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    source = secretive(tmp_path / "secret")
    before = bytes_of(source)
    # The whole path is known before, so that it is the redaction that takes it away.
    whole = iostrata.open(source).analyse()
    found = set(whole.writes.names["process"]) | {whole.writes.names["machine"][0]}
    assert all("s3cr3t" in name for name in found)
    assert sum(SECRET in data for data in before.values()) >= 8
    redact(open_recording(source), tmp_path / "redacted")
    after = bytes_of(tmp_path / "redacted")
    assert not [name for name, data in after.items() if SECRET in data or b"5ec4e7" in data]
    assert "local/facts/connections" in after
    assert "local/facts/echoes" in after
    alike(whole, iostrata.open(tmp_path / "redacted").analyse())
    (trace,) = open_recording(tmp_path / "redacted").traces()
    assert trace.env["filter"] == "--comm redacted"
    facts = trace.facts
    assert [facts.device_name(key) for key in (DISK, OVERLAY)] == ["sda", "sda"]
    assert facts.throttled.keys() == {70, 71}
    assert facts.throttled[70].startswith("n")
    assert not facts.throttled[71]
    assert facts.vmms == {70: facts.throttled[70], 72: ""}
    assert facts.images == {(DISK, 9): "qcow2"}
    assert list(facts.cards.values()) == ["virtio_net"]
    assert facts.least_rtt_us == {800 << 16 | 2049: 77}
    assert [echo.round_trip_ns for echo in facts.echoes] == [9]


def test_bytes_that_no_field_covers_are_zeros(tmp_path: Path) -> None:
    """A slot holds what was there before, beyond its event's fields."""
    source = RECORDINGS / "four_methods"
    redact(open_recording(source), tmp_path / "redacted")
    (trace,) = open_recording(tmp_path / "redacted").traces()
    resumed = trace.points["sched_resume"]
    used = max(offset + kind.itemsize for kind, offset, *_ in (resumed.dtype.fields or {}).values())
    for stream in trace.streams:
        for slot in stream.slots.get(resumed.number, np.zeros(0, np.uint32)).tolist():
            data = bytes((stream.mapped or b"")[slot * 64 : slot * 64 + 64])
            assert data[used:] == bytes(64 - used)


def test_the_same_name_has_the_same_pseudonym() -> None:
    names = Pseudonyms()
    long = b"x" * 27 + b"y"
    assert names.path(b"/a/b/" + long) == b"/n1/n2/n3n4"
    assert (names.part(b"x" * 27), names.part(b"y")) == (b"n3", b"n4")
    assert names.path(b"/") == b"/"
    assert names.process(b"postgres") == names.process(b"postgres") == b"process-1"
    assert names.process(b"kworker/3:1H") == b"kworker/3:1H"
    assert names.process(b"kworker/secret") == b"process-2"
    group = names.cgroup(b"/system.slice/docker-" + b"ab" * 32 + b".scope")
    assert group == b"/n5/docker-000000000001" + b"0" * 52 + b".scope"


def test_only_words_of_the_kernels_are_kept_of_a_threads_name() -> None:
    """Nothing tells whose a thread is: anybody's may be called nearly as one of the kernel's."""
    names = Pseudonyms()
    kernels = (b"rcu_preempt", b"rcu_tasks_kthre", b"rcuop/3", b"jbd2/vda1-8", b"nfsd")
    assert [names.process(name) for name in kernels] == [*kernels]
    others = (b"rcu_s3cr3t", b"rcu_alice", b"jbd2/sdalice-8", b"rcuop/alice")
    assert [names.process(name) for name in others] == [b"process-%d" % n for n in (1, 2, 3, 4)]


def halves(address: str) -> tuple[int, int]:
    number = int(IPv6Address(address))
    return number >> 64, number & (1 << 64) - 1


CLIENT, SERVER = "::ffff:192.168.77.12", "::ffff:192.168.77.99"


def connected(path: Path) -> Path:
    """A client that told of its connection, with an echo to its server."""
    world = World()
    writer = Writer(world, 100, DISK, 1_000)
    writer.enter()
    writer.data(Request())
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    writer.finish()
    ends = [dict(zip((f"{end}_high", f"{end}_low"), halves(address), strict=True))
            for end, address in (("local", CLIENT), ("remote", SERVER))]  # fmt: skip
    for time_ns, connection in ((2_000, 800 << 16 | 2049), (3_000, 801 << 16 | 2049)):
        world.emit("rpc_connection", time_ns, 0, connection=connection, **ends[0], **ends[1])
        world.emit("rpc_call", time_ns, 0, connection=connection, ends=0xBEEF)
        world.emit("packet_sent", time_ns, 0, connection=connection, ends=0xBEEF)
    world.builder.write(path)
    (path / "facts").mkdir(exist_ok=True)
    (path / "facts" / "echoes").write_text(f"{HEAD}\n192.168.77.99\t2500\t9\n")
    (path / "facts" / "connections").write_text(
        "mount_point\tsource\taddress\tport\tlocal_port\tmin_rtt_us\n"
        "/mnt\t192.168.77.99:/export\t192.168.77.99\t2049\t800\t77\n"
    )
    return path


def test_an_address_has_one_pseudonym_in_events_and_facts(tmp_path: Path) -> None:
    redact(open_recording(connected(tmp_path / "machine")), tmp_path / "redacted")
    (trace,) = open_recording(tmp_path / "redacted").traces()
    told = trace.points["rpc_connection"]
    local, remote = (
        {address_of(int(high), int(low)) for high, low in
         zip(told[f"{end}_high"].tolist(), told[f"{end}_low"].tolist(), strict=True)}
        for end in ("local", "remote")
    )  # fmt: skip
    assert len(local) == len(remote) == 1
    assert local != remote
    assert all(str(address).startswith("2001:db8::") for address in local | remote)
    assert {ip_address(echo.address) for echo in trace.facts.echoes} == remote
    data = b"".join(bytes_of(tmp_path / "redacted").values())
    assert b"192.168.77" not in data
    for address in (CLIENT, SERVER):
        assert struct.pack("<Q", halves(address)[1]) not in data
    # The hash of both: whoever knows one finds the other by trying all.
    hashes = {
        int(one) for point in ("rpc_call", "packet_sent") for one in trace.points[point]["ends"]
    }
    assert len(hashes) == 1
    assert hashes != {0xBEEF}


def test_which_echoes_were_to_its_server_is_told_by_the_addresses(tmp_path: Path) -> None:
    source = connected(tmp_path / "machine")
    redact(open_recording(source), tmp_path / "redacted")
    for path in (source, tmp_path / "redacted"):
        (trace,) = open_recording(path).traces()
        used = trace.points["rpc_call"]["connection"].astype(np.int64)
        assert _echoes(trace, used) == [9]


def test_a_machines_part_leads_nowhere(tmp_path: Path) -> None:
    """It is a directory's name of the new recording."""
    path = secretive(tmp_path / "secret")
    told = json.loads((path / "recording.json").read_text())
    told["machines"][0]["role"] = "../../s3cr3t"
    (path / "recording.json").write_text(json.dumps(told))
    redact(open_recording(path), tmp_path / "in" / "redacted")
    assert [one.name for one in (tmp_path / "in" / "redacted").iterdir() if one.is_dir()] == [
        "machine"
    ]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in", "secret"]


def test_who_may_read_one_file_of_it_may_read_all(tmp_path: Path) -> None:
    target = tmp_path / "shown"
    assert status_of(["export", str(RECORDINGS / "nfs"), "--redact", str(target)]) == 0
    modes = {path.stat().st_mode & 0o777 for path in target.rglob("*") if path.is_file()}
    assert modes == {(target / "host" / "metadata").stat().st_mode & 0o777}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording, target = str(RECORDINGS / "kvm_nfs"), tmp_path / "shown"
    assert status_of(["export", recording, "--redact", str(target)]) == 0
    assert f"iostrata replay {target}" in capsys.readouterr().err
    assert status_of(["replay", str(target)]) == 0
    assert "by process-1 (347) on" in capsys.readouterr().out
    assert status_of(["export", recording, "--redact", str(target)]) == 2
    assert "exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["shown"]
    groups = [
        [group.count for group in summarise(iostrata.open(path).analyse(), "file").groups]
        for path in (recording, str(target))
    ]
    assert groups[0] == groups[1]


def test_a_full_disk_is_named_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cli, "_discard_stdout", lambda: None)
    monkeypatch.setattr(import_module("iostrata.cli.export"), "redact", failing)
    (tmp_path / "place").mkdir()
    new = tmp_path / "place" / "new"
    assert status_of(["export", str(RECORDINGS / "four_methods"), "--redact", str(new)]) == 1
    assert f"iostrata: {new}: No space left" in capsys.readouterr().err
    assert list(new.parent.iterdir()) == []
