# SPDX-License-Identifier: Apache-2.0
"""The dump, line by line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from iostrata.trace import layout
from iostrata.trace.dump import dump, operation
from iostrata.trace.read import Trace, read_trace
from tests.builder import TraceBuilder

VDA = 253 << 20
GOLDEN = """\
      0.000000005   1      77 thread                    tgid=70 subject_tid=77 kind=target comm="a \\"b\\"\\x01" process="" birth=0
      1.000000360   1      77 block_rq_issue            request_key=0xffff888100000000 bio_key=0x10 sector=2048 dev=vda size_bytes=8192 flags=0x8801 op=WS error=0 internal_flags=0x4 by_kernel_thread=0
      1.000000441   0       0 block_rq_complete         request_key=0xffff888100000000 bio_key=0x0 sector=18446744073709551615 dev=vda size_bytes=0 flags=0x60802 op=FFFS error=-5 internal_flags=0x0 by_kernel_thread=0
      1.000000441   1       0 block_bio_remap           bio_key=0x1 sector=1 old_sector=2 dev=vda old_dev=254:3 size_bytes=4096 flags=0x1001 op=WM
  12345.000000000   1      77 syscall                   enter_ns=12344999999999 inode=12 offset_bytes=-1 dev=vda result=-28 size_bytes=0 tgid=70 open_flags=0x0 call=fdatasync rwf=0 generation=0
  12345.000000001   0       0 loss                      lost_count=3 lost_point=sched_resume
"""  # noqa: E501


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    key = 0xFFFF888100000000
    builder = TraceBuilder().block(VDA, "vda")
    builder.add("thread", time_ns=5, cpu=1, tid=77, tgid=70, subject_tid=77, kind=1,
                comm='a "b"\x01')  # fmt: skip
    builder.add("block_rq_issue", time_ns=1_000_000_360, cpu=1, tid=77, request_key=key,
                bio_key=16, sector=2048, dev=VDA, size_bytes=8192, flags=0x8801,
                internal_flags=4)  # fmt: skip
    builder.add("block_rq_complete", time_ns=1_000_000_441, request_key=key, error=-5,
                sector=(1 << 64) - 1, dev=VDA, flags=0x60802)  # fmt: skip
    builder.add("block_bio_remap", time_ns=1_000_000_441, cpu=1, bio_key=1, sector=1,
                old_sector=2, dev=VDA, old_dev=254 << 20 | 3, size_bytes=4096,
                flags=0x1001)  # fmt: skip
    builder.add("syscall", time_ns=12_345_000_000_000, cpu=1, tid=77, tgid=70, inode=12,
                enter_ns=12_344_999_999_999, offset_bytes=-1, dev=VDA, result=-28,
                call=layout.CALL_FDATASYNC)  # fmt: skip
    builder.add("loss", time_ns=12_345_000_000_001, lost_count=3,
                lost_point=layout.POINTS["sched_resume"])  # fmt: skip
    return read_trace(builder.write(tmp_path))


@pytest.mark.parametrize("chunk", [1, 2, 1 << 16])
def test_one_line_an_event(trace: Trace, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(sys.modules[dump.__module__], "CHUNK_EVENTS", chunk)
    assert "".join(f"{line}\n" for line in dump(trace)) == GOLDEN


def test_filters(trace: Trace) -> None:
    lines = GOLDEN.splitlines()
    assert list(dump(trace, limit=2)) == lines[:2]
    assert list(dump(trace, tids={77})) == [lines[0], lines[1], lines[4]]
    assert list(dump(trace, points=("loss", "thread"))) == [lines[0], lines[5]]
    assert list(dump(trace, begin_ns=1_000_000_360, end_ns=1_000_000_441)) == lines[1:4]
    assert list(dump(trace, begin_ns=-5, end_ns=5)) == lines[:1]
    assert list(dump(trace, end_ns=-5)) == []
    assert list(dump(trace, points={"loss"}, tids={77})) == []


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (0x0, "R"), (0x80000, "RA"), (0x1, "W"), (0x801, "WS"), (0x20801, "WFS"), (0x40801, "FWS"),
        (0x60801, "FWFS"), (0x40002, "FF"), (0x3, "D"), (0x5, "DE"), (0x9, "N"), (0x1801, "WSM"),
    ],
)  # fmt: skip
def test_operations_are_abbreviated_as_the_kernel_does(flags: int, text: str) -> None:
    assert operation(flags) == text
