# SPDX-License-Identifier: Apache-2.0
"""A slot that is taken and stays empty is lost, and counted; nothing behind it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.trace import layout
from iostrata.trace.frames import contents
from iostrata.trace.packet import HEAD
from iostrata.trace.stream_files import read_stream
from tests.record.native import Program, compiled
from tests.trace.framed import zstd

UUID = bytes(16)
PACKET_EVENTS = 4096


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Program:
    parts = ("ring", "packet", "writer", "frame", "checksum")
    return compiled(tmp_path_factory.mktemp("ring"), "ring", *parts)


def test_an_event_that_is_late_is_waited_for(ring: Program, tmp_path: Path) -> None:
    done = ring.run(
        tmp_path, "take 3", "put 0", "put 2", "drain", "wait 2900", "drain", "put 1", "drain"
    )
    assert done.stdout.splitlines() == [
        "drain 1 read 0 lost", "drain 1 read 0 lost", "drain 3 read 0 lost"
    ]  # fmt: skip
    assert tids(tmp_path) == [0, 1, 2]


def test_an_event_that_never_comes_does_not_hide_what_is_behind_it(
    ring: Program, tmp_path: Path
) -> None:
    done = ring.run(
        tmp_path, "take 3", "put 0", "put 2", "drain", "wait 3000", "drain", "take 1", "put 3",
        "drain",
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "drain 1 read 0 lost", "drain 2 read 1 lost", "drain 3 read 1 lost"
    ]  # fmt: skip
    assert tids(tmp_path) == [0, 2, 3]
    assert read_stream(tmp_path / "cpu_1", UUID).discarded == 1


def test_the_end_does_not_leave_anything_behind(ring: Program, tmp_path: Path) -> None:
    """Two slots that nobody fills, and events between and behind them."""
    done = ring.run(tmp_path, "take 16", *(f"put {n}" for n in range(16) if n not in (4, 9)),
                    "drain", "finish")  # fmt: skip
    assert done.stdout.splitlines() == ["drain 4 read 0 lost", "finish 14 read 2 lost"]
    assert len(tids(tmp_path)) == 14


def laps_of(begin: int, end: int) -> list[str]:
    """Sixteen events at a time, one each 10 ns."""
    return [
        word
        for lap in range(begin, end, 16)
        for word in ("take 16", *(f"put {n}" for n in range(lap, lap + 16)), "drain")
    ]


def gaps(directory: Path) -> list[tuple[int, int | None, int]]:
    """Between which events how many are missing; None: behind the last."""
    stream = read_stream(directory / "cpu_1", UUID)
    assert stream.damage == []
    return [
        (gap.begin_ns, gap.end_ns if gap.end_ns < 1_000_000 else None, gap.count)
        for gap in stream.gaps
    ]


def test_laps_do_not_matter(ring: Program, tmp_path: Path) -> None:
    """A slot of the lap before is not taken for this one's."""
    laps = [word for lap in range(3) for word in
            ("take 16", *(f"put {16 * lap + n}" for n in range(16)), "drain")]  # fmt: skip
    done = ring.run(tmp_path, *laps, "take 2", "put 49", "drain", "wait 3000", "drain")
    assert done.stdout.splitlines()[-2:] == ["drain 48 read 0 lost", "drain 49 read 1 lost"]


def test_an_interrupt_at_the_end_of_a_packet_does_not_break_the_order(
    ring: Program, tmp_path: Path
) -> None:
    """Its event is behind that of whom it interrupted, and of a time before it."""
    laps = [word for begin in range(0, PACKET_EVENTS + 16, 16) for word in
            ("take 16", *(f"{'early' if n == PACKET_EVENTS else 'put'} {n}"
                          for n in range(begin, begin + 16)), "drain")]  # fmt: skip
    ring.run(tmp_path, *laps)
    stream = read_stream(tmp_path / "cpu_1", UUID)
    assert stream.damage == []
    assert tids(tmp_path)[-18:-14] == [*(PACKET_EVENTS + n for n in (-2, 0, -1, 1))]


@pytest.mark.parametrize("written", [True, False])
def test_a_loss_is_where_it_was(ring: Program, tmp_path: Path, *, written: bool) -> None:
    """Between an event and the next: what was read before it was written has nothing of that, and
    what came behind it is not before it."""
    ring.run(
        tmp_path, *laps_of(0, 16), *["write"] * written, "refuse 1152", "refuse 1158",
        *laps_of(16, 32), "write", "wait 100", *laps_of(32, 48), "write",
    )  # fmt: skip
    assert tids(tmp_path) == [*range(48)]
    assert gaps(tmp_path) == [(1150, 1160, 2)]


def test_what_was_lost_at_several_times_is_all_between(ring: Program, tmp_path: Path) -> None:
    """As where the recorder has come back, and gives slots back one by one."""
    ring.run(
        tmp_path, *laps_of(0, 16), "refuse 1152", *laps_of(16, 32), "refuse 1315", "refuse 1316",
        "write", *laps_of(32, 48), "write", *laps_of(48, 64), "refuse 1633",
    )  # fmt: skip
    assert tids(tmp_path) == [*range(64)]
    assert gaps(tmp_path) == [(1150, 1316, 3), (1630, None, 1)]


def test_losses_that_go_on_are_in_each_packet(ring: Program, tmp_path: Path) -> None:
    end = 1000 + 10 * PACKET_EVENTS
    ring.run(
        tmp_path, *laps_of(0, 16), "refuse 1152", "refuse 1153", f"refuse {end}",
        *laps_of(16, PACKET_EVENTS + 64), "write",
    )  # fmt: skip
    assert tids(tmp_path) == [*range(PACKET_EVENTS + 64)]
    settled = end - 640 + 160
    assert gaps(tmp_path) == [(1150, settled, 1), (settled, end, 2)]


def test_what_is_lost_at_the_end_is_told(ring: Program, tmp_path: Path) -> None:
    ring.run(tmp_path, *laps_of(0, 16), "refuse 1095", *laps_of(16, 32), "refuse 1311")
    assert gaps(tmp_path)[-1][2] == 2


def test_compressed_packets_are_the_same_packets(ring: Program, tmp_path: Path) -> None:
    """A full one, one with a loss, one of a few; each a frame with its size and a checksum."""
    laps = [word for begin in range(0, PACKET_EVENTS + 16, 16) for word in
            ("take 16", *(f"put {n}" for n in range(begin, begin + 16)), "drain")]  # fmt: skip
    lost = ["take 3", f"put {PACKET_EVENTS + 17}", "drain", "wait 3000", "drain", "finish"]
    for name, first in (("plain", []), ("framed", ["compress"])):
        (tmp_path / name).mkdir()
        assert ring.run(tmp_path / name, *first, *laps, *lost).returncode == 0
    plain = (tmp_path / "plain" / "cpu_1").read_bytes()
    framed = (tmp_path / "framed" / "cpu_1.zst").read_bytes()
    ends, found = zip(*contents(framed), strict=True)
    assert b"".join(found) == plain
    assert [len(packet) for packet in found] == [
        HEAD.unpack_from(packet)[6] // 8 for packet in found
    ]
    assert len(found) > 1
    begins = [0, *ends[:-1]]
    assert [zstd().get_frame_info(framed[at:]).decompressed_size for at in begins] == [
        len(packet) for packet in found
    ]
    # The third bit of a frame's descriptor: there is a checksum.
    assert all(framed[at + 4] & 0b100 for at in begins)
    assert len(framed) < len(plain) / 4
    assert not (tmp_path / "framed" / "cpu_1").exists()
    assert (tmp_path / "framed" / "recorder").exists()


def tids(directory: Path) -> list[int]:
    stream = read_stream(directory / "cpu_1", UUID)
    events = stream.events(layout.DTYPES["syscall"])[stream.slots[layout.POINTS["syscall"]]]
    return [int(tid) for tid in events["tid"].ravel()]
