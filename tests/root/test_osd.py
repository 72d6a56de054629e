# SPDX-License-Identifier: Apache-2.0
"""Functions of Ceph's OSD, of C++, are found in its file, and tell what they are given."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from iostrata.hops.ceph.serves import serves_of
from iostrata.stitch import commits_of, suboperations_of, whole
from iostrata.trace.read import Trace, read_trace
from tests.root.daemon import Served, compiled, running
from tests.root.test_duties import recording

Recorded = tuple[Trace, list[Served]]
OPERATIONS = 25
CLIENT = 4130
OP, OPREPLY, REPOP, REPOPREPLY = 42, 43, 112, 113
POINTS = (
    "osd_message", "osd_work", "osd_send", "bluestore_begin", "bluestore_data", "bluestore_ready",
    "bluestore_submit", "bluestore_synced", "bluestore_done", "osd_reply", "osd_written",
)  # fmt: skip


@pytest.fixture(scope="module")
def recorded(recorder: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    disk = tmp_path_factory.mktemp("osd")
    program = compiled(disk, "-rdynamic", "-s", name="ceph-osd", source="ceph-osd.c")
    before = ("sh", "-c", 'exec "$0" --id 7 "$1"')
    with (
        running(program, disk / "file", *before) as daemon,
        recording(recorder, disk / "trace", "--path"),
    ):
        served = daemon.serve(OPERATIONS)
    return read_trace(disk / "trace"), served


def test_each_call_is_an_event_at_its_time(recorded: Recorded) -> None:
    trace, served = recorded
    assert trace.lost_by_point == {}
    for point in POINTS:
        events = trace.points[point]
        each = len(events) // OPERATIONS
        assert len(events) == each * OPERATIONS > 0
        times = events["time_ns"].reshape(OPERATIONS, each)
        for when, one in zip(times.tolist(), served, strict=True):
            assert one.begin_ns <= min(when) <= max(when) <= one.end_ns


def test_messages_are_told_by_their_headers(recorded: Recorded) -> None:
    """Which OSD it is, its command line says; what is no operation's is not told."""
    trace, served = recorded
    numbers = [each.unique for each in served]
    taken, sent = trace.points["osd_message"], trace.points["osd_send"]
    assert set(taken["osd_number"].tolist()) == set(sent["osd_number"].tolist()) == {7}
    asked = taken["type"] == OP
    assert taken["number"][asked].tolist() == numbers
    assert set(taken["peer"][asked].tolist()) == {CLIENT}
    assert sorted(set(sent["type"].tolist())) == [REPOP, REPOPREPLY]
    copies = sent["type"] == REPOP
    assert sent["peer"][copies].tolist() == [1, 2] * OPERATIONS
    assert (sent["op_key"][copies] == np.repeat(taken["op_key"][asked], 2)).all()
    assert (sent["op_key"][~copies] == 0).all()
    assert sent["peer"][~copies].tolist() == [5] * OPERATIONS
    written = trace.points["osd_written"]
    assert written["type"].tolist() == [OPREPLY, REPOPREPLY] * OPERATIONS
    assert written["number"][::2].tolist() == numbers
    assert (written["tgid"] == taken["tgid"][0]).all()
    assert (written["message_key"][1::2] == sent["message_key"][~copies]).all()
    assert (written["message_key"][::2] != written["message_key"][1::2]).all()


def test_what_is_one_operations_is_known_by_it(recorded: Recorded) -> None:
    """As the analysis reads them: each was served, and each copy by the OSD that answered."""
    trace, _ = recorded
    serves, pieces = serves_of(trace)
    assert len(serves) == OPERATIONS
    assert set(serves.size_bytes.tolist()) == {4096}
    begun, replied = trace.points["bluestore_begin"], trace.points["osd_reply"]
    assert (begun["op_key"] == pieces.request_key.astype(np.uint64)).all()
    assert (replied["op_key"] == begun["op_key"]).all()
    copies = suboperations_of(whole(trace))
    assert copies.peer.tolist() == [2] * OPERATIONS
    assert len(commits_of(trace)) == OPERATIONS


def test_one_that_is_started_anew_and_goes_on_as_a_child(recorder: Path, tmp_path: Path) -> None:
    """As ceph-osd does on its own, and daemon(3)."""
    program = compiled(tmp_path, "-rdynamic", "-s", name="ceph-osd", source="ceph-osd.c")
    with (
        recording(recorder, tmp_path / "trace", "--duty", "osd"),
        running(program, tmp_path / "file", "sh", "-c", 'exec "$0" --fork "$1"') as daemon,
    ):
        # Until it is met: what it did before, and then, may be told or not.
        until(lambda: bool(daemon.serve(1)) and is_met(tmp_path / "trace"))
        begin_ns = time.monotonic_ns()
        daemon.serve(OPERATIONS)
    trace = read_trace(tmp_path / "trace")
    told_ns = trace.points["osd_reply"].time_ns
    assert np.count_nonzero(told_ns > np.uint64(begin_ns)) == OPERATIONS
    assert daemon.process.pid not in trace.points["osd_message"]["tgid"].tolist()


def is_met(trace: Path) -> bool:
    return len(read_trace(trace).points["osd_reply"]) > 0


def probes_of(recorder: int) -> int:
    """Functions of processes that it looks at, each by an event of perf."""
    count = 0
    for each in Path(f"/proc/{recorder}/fd").iterdir():
        with suppress(FileNotFoundError):
            count += str(each.readlink()) == "anon_inode:[perf_event]"
    return count


def until(true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError("not within a minute")


def test_who_has_ended_is_let_go_of_bit_by_bit(recorder: Path, tmp_path: Path) -> None:
    """Each function takes the kernel a while, in which nobody empties the rings."""
    program = compiled(tmp_path, "-rdynamic", "-s", name="ceph-osd", source="ceph-osd.c")
    with recording(recorder, tmp_path / "trace", "--path") as process:
        others = probes_of(process.pid)
        with running(program, tmp_path / "file"):
            until(lambda: probes_of(process.pid) >= others + len(POINTS))
        before = probes_of(process.pid)
        until(lambda: probes_of(process.pid) < before)
        time.sleep(3)
        assert probes_of(process.pid) > others + len(POINTS) / 2
