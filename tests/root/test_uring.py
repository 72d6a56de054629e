# SPDX-License-Identifier: Apache-2.0
"""io_uring by its bare interface: what workers, chains and flags of a ring make of requests."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from iostrata.model import Breakdown
from tests.root.conftest import iostrata, loop_device
from tests.root.test_oracles import recorded
from tests.root.test_units import methods

SOURCE = Path(__file__).parent / "programs" / "requests.c"
SIZE, COUNT, DEPTH, FULL = 8192, 50, 4, 32


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


def kernel_has(requests: Path, disk: Path, mode: str) -> None:
    """Kernels that do not know a request of this kind refuse it."""
    asked = subprocess.run(
        [requests, disk / "asked", mode, "1"], capture_output=True, text=True, check=True
    )
    if int(asked.stdout.split()[0]) < 0:
        pytest.skip(f"this kernel's io_uring has no such request: {mode}")


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


def test_each_write_of_a_chain_begins_when_the_one_before_is_complete(
    requests: Path, disk: Path
) -> None:
    found = recorded(disk, str(requests), str(disk / "file"), "chain", str(COUNT))
    assert methods(found) == {"io_uring:open_datasync": DEPTH * COUNT}
    explained(found, "device.data")
    begin = np.sort(found.writes.begin_ns).reshape(COUNT, DEPTH)
    assert (np.diff(begin, axis=1) > 0).all()


@pytest.mark.parametrize("mode", ["message", "opened"])
def test_what_a_chain_waits_for_that_is_not_recorded_is_in_no_write(
    requests: Path, disk: Path, mode: str
) -> None:
    """A message, whoever sends it; a worker that opens the file."""
    found = recorded(disk, str(requests), str(disk / "file"), mode, str(COUNT))
    assert methods(found) == {"io_uring:fsync": COUNT}
    explained(found, "device.data")
    if "lock" in [layer.name for layer in found.layers]:
        assert np.median(row(found, "lock")) == 0


def test_completions_that_a_ring_has_no_room_for(requests: Path, disk: Path) -> None:
    """Of all of them it is known whose they are; not where all requests are called alike."""
    count = 10
    for mode, left_out in (("full", {}), ("nameless", {"completion not seen: its ring was full"})):
        found = recorded(disk, str(requests), str(disk / "file"), mode, str(count))
        assert set(found.left_out) == set(left_out)
        assert len(found.writes) + sum(found.left_out.values()) == FULL * count
        assert len(found.writes) > 0


@pytest.mark.parametrize("mode", ["vector", "splice"])
def test_synchronous_writes_of_other_opcodes(requests: Path, disk: Path, mode: str) -> None:
    kernel_has(requests, disk, mode)
    found = recorded(disk, str(requests), str(disk / "file"), mode, str(COUNT))
    assert methods(found) == {"io_uring:open_datasync": COUNT}
    assert found.writes.size_bytes.tolist() == [SIZE] * COUNT
    explained(found, "device.data")


@pytest.mark.parametrize("mode", ["append", "position"])
def test_what_goes_elsewhere_than_its_request_says(requests: Path, disk: Path, mode: str) -> None:
    """To the file's end, or to where the last one got."""
    found = recorded(disk, str(requests), str(disk / "file"), mode, str(COUNT))
    assert methods(found) == {"io_uring:sync_file_range": COUNT}
    assert found.writes.size_bytes.tolist() == [SIZE] * COUNT


@pytest.mark.parametrize("mode", ["plain-vector", "plain-splice"])
def test_what_other_opcodes_write_counts_in_the_sync_behind_it(
    requests: Path, disk: Path, mode: str
) -> None:
    kernel_has(requests, disk, mode)
    found = recorded(disk, str(requests), str(disk / "file"), mode, str(COUNT))
    assert methods(found) == {"fsync": COUNT}
    assert found.writes.size_bytes.tolist() == [SIZE] * COUNT
    assert found.writes.durable_writes.tolist() == [1] * COUNT


def test_an_allocation_is_durable_where_its_file_is(requests: Path, disk: Path) -> None:
    found = recorded(disk, str(requests), str(disk / "file"), "allocate", str(COUNT))
    assert methods(found) == {"io_uring:open_datasync": COUNT}
    assert found.writes.size_bytes.tolist() == [0] * COUNT
    command = (str(requests), str(disk / "file"), "plain-allocate", str(COUNT))
    done = iostrata("record", "-o", str(disk / "recording"), "--force", "--", *command)
    assert [int(result) for result in done.stdout.split()] == [0] * COUNT, done.stderr
    shown = iostrata("replay", str(disk / "recording"))
    assert "no synchronous write" in shown.stderr, shown.stderr


@pytest.mark.parametrize(("before", "durable"), [(8 << 20, COUNT), (0, COUNT - 1)])
def test_a_cut_is_durable_where_all_that_is_done_to_its_file_is(
    before: int, durable: int, requests: Path, disk: Path
) -> None:
    """But one by which the file grows: ext4 awaits nothing then."""
    kernel_has(requests, disk, "cut")
    file = disk / "file"
    file.touch()
    os.truncate(file, before)
    if subprocess.run(["chattr", "+S", file], capture_output=True, check=False).returncode:
        pytest.skip("files here have no attributes")
    found = recorded(disk, str(requests), str(file), "cut", str(COUNT))
    assert methods(found) == {"io_uring:sync_inode": durable}
    assert found.writes.size_bytes.tolist() == [0] * durable
