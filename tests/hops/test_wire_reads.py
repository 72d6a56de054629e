# SPDX-License-Identifier: Apache-2.0
"""Reads by NVMe over TCP, iSCSI and NBD, followed to the target with known truth: what each held of
them, and whose page cache, or whose disk, they were from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.errors import NothingToAnalyse
from iostrata.model import Op
from iostrata.recording import open_recording
from iostrata.report import table
from iostrata.trace.layout import CALL_FALLOCATE
from tests.reading import O_DIRECT
from tests.stitch.test_reads import served
from tests.stitch.test_truth import accounts
from tests.synthetic import CALLS, Clock, clock
from tests.wires import (
    CACHED,
    DIRECT,
    DISK,
    EXPORT_INODE,
    MISSED,
    PAGE,
    STARTED,
    TARGET_DISK,
    THREAD,
    Iscsi,
    Nbd,
    NvmeTcp,
    Tgt,
    Wire,
    under_way,
)

WIRES = [NvmeTcp, Iscsi, Nbd, Tgt]
TARGETS = WIRES[:2]
CLOCKS = [(int, int), (clock(5_000_000), clock(3_600_000_000_000, 4))]


@pytest.mark.parametrize("clocks", CLOCKS)
@pytest.mark.parametrize("kind", WIRES)
def test_whose_page_cache_and_whose_disk(
    kind: type[Wire], clocks: tuple[Clock, Clock], tmp_path: Path
) -> None:
    wire = kind(clocks)
    for number in range(12):
        place = number * 64 * PAGE
        wire.read(place, 4 * PAGE, MISSED, "target device")
        wire.in_memory(place, PAGE)
        wire.read(place + 4 * PAGE, 4 * PAGE, CACHED, "target page cache")
        wire.read(place + 8 * PAGE, 4 * PAGE, STARTED, "target page cache")
    found = wire.holds(tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.hop, crossing.asked, crossing.followed) == (wire.hop, 36, 36)
    summary = summarise(found, "served")
    assert [(one.name, one.count) for one in summary.served] == [
        ("target page cache", 24), ("initiator page cache", 12), ("target device", 12),
    ]  # fmt: skip
    text = table.render(summary).plain
    assert "not followed" not in text


@pytest.mark.parametrize("kind", TARGETS)
def test_a_disk_behind_a_target_has_no_page_cache(kind: type[Wire], tmp_path: Path) -> None:
    """Of a file its page cache had it; of a disk, whose bios are the target's own, none did."""
    wire = kind()
    for number in range(6):
        place = number * 64 * PAGE
        wire.read(place, 4 * PAGE, DISK, "target device")
        wire.read(place + 4 * PAGE, PAGE, DISK, "target device", flags=O_DIRECT)
    wire.holds(tmp_path)


@pytest.mark.parametrize("kind", WIRES)
def test_past_the_initiators_page_cache(kind: type[Wire], tmp_path: Path) -> None:
    """O_DIRECT above says nothing of the page cache below, nor does a file that is opened so."""
    wire = kind()
    for number in range(6):
        place = number * 64 * PAGE
        wire.read(place, PAGE, CACHED, "target page cache", flags=O_DIRECT)
        wire.read(place + 4 * PAGE, PAGE, DIRECT, "target device", flags=O_DIRECT)
    found = wire.holds(tmp_path / "read")
    direct = analyse(open_recording(tmp_path / "read"), Op.DIRECT)
    assert accounts(direct) == accounts(found)
    assert summarise(direct).served == summarise(found).served


@pytest.mark.parametrize("kind", WIRES)
def test_what_another_command_had_asked_for(kind: type[Wire], tmp_path: Path) -> None:
    """Its pages are known by the file that the target tells of."""
    wire = kind()
    for number in range(4):
        place = number * 64 * PAGE
        first = wire.thread(1)
        first.now, first.account = wire.reader.now + 20_000, Counter()
        flight = first.ask(place + (1 << 22), 4 * PAGE, device=250_000)
        told = "target readahead under way"
        # The disk is at work for the command from its begin on, as it is deeper than the thread.
        backend = under_way(flight)
        wire.read(place, 4 * PAGE, backend, told, thread=2)
        row = f"target/{wire.floor}"
        wire.truth[-1]["target/device.readahead"] += wire.begins
        wire.truth[-1][row] -= wire.begins
        wire.read(place + 16 * PAGE, PAGE, MISSED, "target device", thread=3)
    wire.holds(tmp_path)


@pytest.mark.parametrize("kind", WIRES[2:])
def test_a_sync_behind_a_read_is_another_request(kind: type[Wire], tmp_path: Path) -> None:
    """Its thread goes on with that at once; behind a write it would be that one's."""
    wire = kind()
    for number in range(6):
        wire.read(number * 64 * PAGE, PAGE, CACHED, "target page cache")
        thread = wire.thread()
        began = thread.now + 200
        wire.target.emit("syscall", began + 90_000, thread.tid, enter_ns=began, dev=TARGET_DISK,
                         inode=EXPORT_INODE, offset_bytes=-1, size_bytes=0, tgid=THREAD, result=0,
                         open_flags=2, call=CALLS["fdatasync"])  # fmt: skip
    wire.holds(tmp_path)


@pytest.mark.parametrize("kind", TARGETS)
def test_a_file_of_which_nothing_is_known(kind: type[Wire], tmp_path: Path) -> None:
    """Then what its thread waited for says it: that it is a file's is known."""
    wire = kind()
    for number in range(4):
        place = number * 64 * PAGE
        wire.read(place, PAGE, MISSED, "target device")
        wire.read(place + 4 * PAGE, PAGE, CACHED, "target page cache")
    for event in wire.target.builder._rows["target_file"]:
        event |= {"dev": 0, "inode": 0}
    wire.holds(tmp_path)


@pytest.mark.parametrize("kind", TARGETS)
def test_who_carried_a_command_out_was_not_seen(kind: type[Wire], tmp_path: Path) -> None:
    """Then nothing says that no disk was asked."""
    wire = kind()
    for number in range(4):
        wire.read(number * 64 * PAGE, PAGE, CACHED, "not told")
    for point in ("nvmet_work", "target_work", "target_file"):
        wire.target.builder._rows.pop(point, None)
    found = analyse(open_recording(wire.recording(tmp_path)), Op.READ)
    assert list(served(found)) == wire.reader.served


@pytest.mark.parametrize("kind", WIRES)
def test_a_target_that_was_not_recorded(kind: type[Wire], tmp_path: Path) -> None:
    """The disk is what served, and one row has the network and the target."""
    wire = kind()
    for number in range(4):
        wire.read(number * 64 * PAGE, PAGE, MISSED, "device")
    found = analyse(open_recording(wire.recording(tmp_path, "initiator")), Op.READ)
    assert list(served(found)) == wire.reader.served
    rows = {
        layer.name: row.tolist() for layer, row in zip(found.layers, found.time_ns, strict=True)
    }
    beyond = [
        sum(ns for row, ns in true.items() if row.startswith("target/")) for true in wire.truth
    ]
    assert rows["initiator.call"] == beyond


@pytest.mark.parametrize("kind", TARGETS)
def test_reads_are_no_writes_of_a_target(kind: type[Wire], tmp_path: Path) -> None:
    """What a target that was asked for reads served is in no table of writes."""
    wire = kind()
    for number in range(4):
        wire.read(number * 64 * PAGE, PAGE, MISSED, "device")
    with pytest.raises(NothingToAnalyse):
        analyse(open_recording(wire.recording(tmp_path, "target")))


@pytest.mark.parametrize("kind", [Nbd, Tgt])
def test_a_daemon_that_punches_holes_reads_what_it_reads(kind: type[Nbd], tmp_path: Path) -> None:
    """What was trimmed is a call of its own, and none of these."""
    wire = kind()
    for number in range(6):
        place = number * 64 * PAGE
        wire.read(place, 4 * PAGE, MISSED, "target device")
        daemon = wire.thread()
        begin = daemon.now + 5_000
        wire.target.emit("syscall", begin + 15_000, daemon.tid, enter_ns=begin, dev=TARGET_DISK,
                         inode=EXPORT_INODE, offset_bytes=place, size_bytes=PAGE, tgid=THREAD,
                         result=0, open_flags=2, call=CALL_FALLOCATE)  # fmt: skip
        wire.read(place + 8 * PAGE, PAGE, CACHED, "target page cache")
    wire.holds(tmp_path)
