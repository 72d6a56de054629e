# SPDX-License-Identifier: Apache-2.0
"""What passes the page cache by, many at a time: against fio's own account and the disk's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iostrata as library
from tests.root.conftest import iostrata
from tests.root.test_queue_limits import SERVICE_S, SlowDisk, slow
from tests.root.test_record import good

__all__ = ["slow"]

TRANSFERS, DEPTH = 48, 8
HIDDEN = 3
"""Of so many at most a kernel that keeps its tracepoints silent now and then hides the end."""


def told_by_fio(of: dict[str, Any]) -> tuple[int, float]:
    return of["total_ios"], of["lat_ns"]["mean"]


def counted(disk: str) -> int:
    """Requests that it has completed, of both kinds."""
    fields = Path(f"/sys/class/block/{Path(disk).name}/stat").read_text().split()
    return int(fields[0]) + int(fields[4])


@pytest.mark.parametrize(("engine", "prefix"), [("libaio", "libaio:"), ("io_uring", "io_uring:"),
                                                ("psync", "")])  # fmt: skip
def test_as_fio_has_them(engine: str, prefix: str, slow: SlowDisk, disk: Path) -> None:
    """As many of each kind, and as long, on a disk of known service time; each asks for one."""
    if not shutil.which("fio"):
        pytest.skip("fio is not installed")
    depth = 1 if engine == "psync" else DEPTH
    before = counted(slow.path)
    done = iostrata(
        "record", "-o", str(disk / "recording"), "--op", "direct", "--", "fio", "--name=job",
        f"--filename={slow.path}", f"--ioengine={engine}", "--direct=1", f"--iodepth={depth}",
        "--rw=randrw", "--bs=4k", "--size=8m", f"--number_ios={TRANSFERS}",
        "--output-format=json", f"--output={disk / 'fio'}",
    )  # fmt: skip
    good(done.returncode, done.stderr)
    requests = counted(slow.path) - before
    (job,) = json.loads((disk / "fio").read_text())["jobs"]
    found = library.open(disk / "recording").analyse("direct")
    method = [found.writes.names["method"][code] for code in found.writes.codes["method"]]
    took, missing = found.writes.latency_ns, sum(found.left_out.values())
    for kind in ("read", "write"):
        count, mean_ns = told_by_fio(job[kind])
        mine = [name == f"{prefix}{kind}_direct" for name in method]
        assert count - missing <= sum(mine) <= count
        # It has its clock outside of the calls, and takes time itself.
        assert abs(took[mine].mean() - mean_ns) <= 0.05 * mean_ns + 1e6
    assert TRANSFERS - HIDDEN <= len(found.writes) <= TRANSFERS <= requests
    total = found.time_ns.sum(axis=0) + found.residual_ns
    assert total.tolist() == took.tolist()
    rows = dict(zip((layer.name for layer in found.layers), found.time_ns, strict=True))
    # One at a time: with others before it, a transfer waits for its own request, and theirs.
    served = rows["device.read"] + rows["device.data"]
    seen = served >= 0.95e9 * SERVICE_S
    assert (~seen).sum() <= HIDDEN
    kinds = np.array([name.endswith("read_direct") for name in method])
    assert not rows["device.data"][seen & kinds].any()
    assert not rows["device.read"][seen & ~kinds].any()
    assert found.residual_ns[seen].sum() <= 0.02 * took[seen].sum()
