# SPDX-License-Identifier: Apache-2.0
"""Page faults of a mapped file, whose disk takes long: each is a read, as fio's account has it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.lab.cache import new_lab_directory
from iostrata.lab.read import scenarios
from iostrata.lab.record import record
from iostrata.lab.run import furnished
from iostrata.lab.scenario import Fio, with_kernel
from iostrata.model import Op
from iostrata.recording import open_recording
from tests.lab.test_oracles import Quiet

pytestmark = [
    pytest.mark.lab,
    # QEMU is known by its number, not by the object that started it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FAULTS, DISK_NS = 256, 5_000_000
MAPPED = Fio(
    name="mapped",
    machine="local",
    directory="/mnt/data",
    op=cast(Literal["direct"], "read"),
    options={
        "rw": "randread", "bs": "4k", "size": FAULTS * 4096, "ioengine": "mmap",
        "fadvise_hint": "random", "invalidate": 1,
    },
)  # fmt: skip


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_each_fault_is_a_read_and_has_its_disks_time(kernel: str, tmp_path: Path) -> None:
    scenario = with_kernel(scenarios()["local-delay"], kernel)
    with furnished(scenario, new_lab_directory("faults"), Quiet(), keep=False) as lab:
        told = record(lab, MAPPED, tmp_path / "mapped", Quiet())
    found = analyse(open_recording(tmp_path / "mapped"), Op.READ)
    assert not found.quality.lost
    total = found.time_ns.sum(axis=0) + found.residual_ns
    assert total.tolist() == found.writes.latency_ns.tolist()
    names, codes = found.writes.names, found.writes.codes
    faults = np.array(names["method"])[codes["method"]] == "fault"
    # fio's own program, and its libraries, lie elsewhere.
    faults &= np.array(names["device"])[codes["device"]] == "slow"
    assert np.count_nonzero(faults) == told.count == FAULTS
    assert {names["served"][code] for code in codes["served"][faults].tolist()} == {"device"}
    mean_ns = found.writes.latency_ns[faults].mean()
    assert DISK_NS <= mean_ns <= told.mean_ns
    (device,) = (n for n, layer in enumerate(found.layers) if layer.name == "device.read")
    held_ns = found.time_ns[device, faults]
    assert held_ns.min() >= 0.9 * DISK_NS
    assert found.residual_ns[faults].sum() <= 0.01 * found.writes.latency_ns[faults].sum()
