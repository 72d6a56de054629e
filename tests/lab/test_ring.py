# SPDX-License-Identifier: Apache-2.0
"""fio's account of requests by io_uring over NVMe over TCP, and where it differs from the table:
what is complete lies in the ring until fio's own thread, which sends the next ones, takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.lab.cache import new_lab_directory
from iostrata.lab.read import scenarios
from iostrata.lab.record import record, rehearse
from iostrata.lab.run import furnished
from iostrata.lab.scenario import Fio
from iostrata.model import Op
from iostrata.recording import open_recording
from tests.lab.test_oracles import TOLERANCE, Quiet, watch, watched

pytestmark = [
    pytest.mark.lab,
    # QEMU is known by its number, not by the object that started it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RING = Fio(
    name="uring-4",
    machine="initiator",
    directory="/mnt/data",
    op="direct",
    options={
        "rw": "randrw", "bs": "4k", "size": "8m", "overwrite": 1, "direct": 1,
        "ioengine": "io_uring", "iodepth": 4, "number_ios": 2048,
    },
)  # fmt: skip
# Of each request fio's own structure is the ring's user_data: since when fio has it, since when the
# kernel, when that was done with it, and when fio took it from the ring.
SCRIPT = """
uprobe:/usr/bin/fio:td_io_queue { @had[arg1] = nsecs; }
tracepoint:io_uring:io_uring_submit_sqe /@had[args->user_data]/ { @begun[args->user_data] = nsecs; }
tracepoint:io_uring:io_uring_complete /@begun[args->user_data]/ { @done[args->user_data] = nsecs; }
uprobe:/usr/bin/fio:put_io_u /@done[arg1]/ {
    @count += 1;
    @before += @begun[arg1] - @had[arg1];
    @kernel += @done[arg1] - @begun[arg1];
    @lay += nsecs - @done[arg1];
    delete(@had[arg1]);
    delete(@begun[arg1]);
    delete(@done[arg1]);
}
END {
    printf("sums %llu %llu %llu %llu\\n", @count, @before, @kernel, @lay);
    clear(@had); clear(@begun); clear(@done);
}
"""


def test_what_fio_has_more_lay_in_the_ring(tmp_path: Path) -> None:
    with furnished(scenarios()["nvme-tcp"], new_lab_directory("ring"), Quiet(), keep=False) as lab:
        rehearse(lab, RING)
        watch(lab, "initiator", SCRIPT)
        told = record(lab, RING, tmp_path / "ring", Quiet())
        ((count, before_ns, kernel_ns, lay_ns),) = watched(lab, "initiator")["sums"]
    found = analyse(open_recording(tmp_path / "ring"), Op.DIRECT)
    assert len(found.writes) == told.count == count
    assert abs(kernel_ns / count / found.writes.latency_ns.mean() - 1) <= TOLERANCE
    theirs_ns = (before_ns + kernel_ns + lay_ns) / count
    assert abs(theirs_ns / told.mean_ns - 1) <= TOLERANCE
