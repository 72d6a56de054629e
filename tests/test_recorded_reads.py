# SPDX-License-Identifier: Apache-2.0
"""Recordings of real kernels that were asked for reads: dd of a file that is not in memory.

Each is of Linux 6.1 in the lab: 64 kB at a time from ext4 (with O_DIRECT, too), and over NFS. Of
two machines, a file that neither has in memory; once more when only the upper one has dropped it;
and again.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.model import Breakdown, Op
from iostrata.recording import open_recording
from iostrata.report import json, table

RECORDINGS = Path(__file__).parent / "recordings_of_reads"
OPS = {
    "ext4": Op.READ, "ext4_direct": Op.DIRECT, "nfs": Op.READ, "nfs_server": Op.READ,
    "kvm_local": Op.READ,
}  # fmt: skip
FILE_READS = 16


def found(name: str) -> Breakdown:
    return analyse(open_recording(RECORDINGS / name), OPS[name])


@pytest.mark.parametrize("name", OPS)
def test_the_table_is_as_it_was(name: str) -> None:
    """IOSTRATA_REWRITE=1 writes the tables anew; read what changed."""
    by = "served" if OPS[name] is Op.READ else "method"
    text = table.render(summarise(found(name), by), 80).plain
    golden = RECORDINGS / f"{name}.txt"
    if os.environ.get("IOSTRATA_REWRITE"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("name", OPS)
def test_every_read_adds_up(name: str) -> None:
    breakdown = found(name)
    layers = breakdown.time_ns.sum(axis=0)
    assert np.array_equal(layers + breakdown.residual_ns, breakdown.writes.latency_ns)
    assert (breakdown.time_ns >= 0).all()
    assert (breakdown.residual_ns >= 0).all()
    assert breakdown.residual_ns.sum() <= 0.01 * breakdown.writes.latency_ns.sum()


@pytest.mark.parametrize("name", OPS)
def test_the_same_recording_gives_the_same_bytes(name: str) -> None:
    once, again = (json.render(summarise(found(name))) for _ in range(2))
    assert once == again


def test_all_of_the_file_was_read() -> None:
    """As many bytes as dd said."""
    for name, size_bytes in (("ext4", 8_000_000), ("ext4_direct", 8_000_000), ("nfs", 4_000_000)):
        reads = found(name).writes
        number = next(n for n, path in enumerate(reads.names["file"]) if path.endswith("/ff"))
        assert reads.size_bytes[reads.codes["file"] == number].sum() == size_bytes


@pytest.mark.parametrize(("name", "upper", "lower"), [("nfs_server", "host", "server"),
                                                      ("kvm_local", "guest", "host")])  # fmt: skip
def test_whose_page_cache_and_whose_disk(name: str, upper: str, lower: str) -> None:
    """The disk serves the first time only, the lower machine's memory the second; then all is in
    the upper one's. What is read ahead is on its way by then, or there."""
    breakdown = found(name)
    reads = breakdown.writes
    number = next(n for n, path in enumerate(reads.names["file"]) if path.endswith("/ff"))
    rows = np.flatnonzero(reads.codes["file"] == number)
    served = [reads.names["served"][code] for code in reads.codes["served"][rows].tolist()]
    assert len(served) == 3 * FILE_READS
    cold, below, warm = (
        set(served[turn * FILE_READS : (turn + 1) * FILE_READS]) for turn in range(3)
    )
    near = {f"{upper} page cache", f"{upper} readahead under way"}
    assert f"{lower} device" in cold <= {f"{lower} device", *near}
    assert f"{lower} page cache" in below <= {f"{lower} page cache", *near}
    assert warm == {f"{upper} page cache"}
    (crossing,) = breakdown.quality.crossings
    assert crossing.asked == crossing.followed > 0
