# SPDX-License-Identifier: Apache-2.0
"""io_uring by its bare interface: what workers, chains and flags of a ring make of requests."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from iostrata.model import Breakdown
from tests.root.conftest import iostrata
from tests.root.test_oracles import loop_device, recorded
from tests.root.test_units import methods

SOURCE = Path(__file__).parent / "programs" / "requests.c"
SIZE, COUNT = 8192, 50


@pytest.fixture(scope="module")
def requests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("requests") / "requests"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o", made, SOURCE], check=True)
    return made


@pytest.fixture
def raw(disk: Path) -> Iterator[Path]:
    """A disk without a file system: nothing but io_uring's own events tells of a worker's work."""
    with contextlib.ExitStack() as teardown:
        yield Path(loop_device(disk / "image", COUNT * SIZE, teardown))


@pytest.fixture
def file(request: pytest.FixtureRequest) -> Path:
    name = "raw" if request.param else "disk"
    place: Path = request.getfixturevalue(name)
    return place if request.param else place / "file"


def row(found: Breakdown, name: str) -> np.ndarray:
    times: np.ndarray = found.time_ns[[layer.name for layer in found.layers].index(name)]
    return times


def explained(found: Breakdown, device_row: str) -> None:
    """Of most writes all but 2 % is, and is the device's among others; here the kernel may hide
    completions, several in a row."""
    total = found.writes.latency_ns
    assert np.array_equal(found.time_ns.sum(axis=0) + found.residual_ns, total)
    seen = row(found, device_row) > 0
    assert seen.mean() > 0.75
    assert np.median(found.residual_ns[seen] / total[seen]) <= 0.02


@pytest.mark.parametrize("file", [True, False], ids=["raw", "ext4"], indirect=True)
def test_a_worker_s_requests_that_the_submitter_completes(
    requests: Path, disk: Path, file: Path
) -> None:
    """A ring that defers its task work: workers run the syncs, whose flushes are theirs."""
    found = recorded(disk, str(requests), str(file), "defer", str(COUNT))
    assert methods(found) == {"io_uring:fsync": COUNT}
    assert found.writes.size_bytes.tolist() == [SIZE] * COUNT
    explained(found, "device.flush")


def test_what_a_worker_runs_at_one_go_is_its_own(requests: Path, disk: Path) -> None:
    """A write to the page cache: no bio, no sleep, and the submitter completes it."""
    found = recorded(disk, str(requests), str(disk / "file"), "range", str(COUNT))
    assert methods(found) == {"io_uring:sync_file_range": COUNT}
    assert found.writes.size_bytes.tolist() == [SIZE] * COUNT
    explained(found, "device.data")


@pytest.mark.parametrize("file", [True, False], ids=["raw", "ext4"], indirect=True)
def test_requests_that_a_worker_only_begins(requests: Path, disk: Path, file: Path) -> None:
    """Direct ones: the disk's interrupt has the submitter complete them, not the worker."""
    found = recorded(disk, str(requests), str(file), "worker", str(COUNT))
    assert methods(found) == {"io_uring:open_datasync": COUNT}
    explained(found, "device.data")


@pytest.mark.parametrize("mode", ["refused", "cancelled"])
def test_syncs_that_fail_are_left_out_and_counted(requests: Path, disk: Path, mode: str) -> None:
    """Refused before they are submitted, or cancelled as what they are linked behind failed."""
    command = (str(requests), str(disk / "file"), mode, str(COUNT))
    done = iostrata("record", "-o", str(disk / "recording"), "--", *command)
    assert done.returncode == 0, done.stderr
    assert sum(int(result) < 0 for result in done.stdout.split()) >= COUNT
    shown = iostrata("replay", str(disk / "recording"))
    assert f"the call failed ({COUNT})" in shown.stderr
    assert "strace" in shown.stderr
    assert "--buffer" not in shown.stderr


def test_a_write_without_a_completion_goes_with_the_sync_behind_it(
    requests: Path, disk: Path
) -> None:
    found = recorded(disk, str(requests), str(disk / "file"), "silent", str(COUNT))
    assert methods(found) == {"io_uring:fsync": COUNT}
    assert found.writes.size_bytes.tolist() == [SIZE] * COUNT
    assert found.writes.durable_writes.tolist() == [1] * COUNT
    assert found.quality.plain_writes == 0
    explained(found, "device.data")
