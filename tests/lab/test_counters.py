# SPDX-License-Identifier: Apache-2.0
"""A disk over a wire, and what its target counts itself: the kernel's own account of the disk
(/sys/block/*/stat), of the commands of iSCSI (LIO's statistics), and what bpftrace says of those of
NVMe (nvmet's tracepoints)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.columns import AsOf, at
from iostrata.lab.cache import new_lab_directory
from iostrata.lab.read import scenarios
from iostrata.lab.record import record
from iostrata.lab.run import furnished
from iostrata.model import Breakdown, Op
from iostrata.recording import open_recording
from iostrata.trace import Trace
from tests.lab.test_oracles import PATIENCE_S, Quiet, watch, watched

pytestmark = [
    pytest.mark.lab,
    # QEMU is known by its number, not by the object that started it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

READ, WRITE, OPERATION = 0, 1, 0xFF
SECTOR = 512
# Of one kind of request in /sys/block/*/stat: how many, their sectors, and ms from their begin.
COLUMNS = {READ: (0, 2, 3), WRITE: (4, 6, 7)}
COMMANDS = {"iscsi": "/sys/kernel/config/target/iscsi/*/tpgt_1/lun/lun_0/statistics/*/in_cmds"}
POINTS = {"iscsi": "target_cmd_complete", "nvme-tcp": "nvmet_req_complete"}
# Ten times a second: the clock, the disk's counters, and the target's.
WATCH = """
disk=/sys/block/$(basename $(realpath /run/disks/disk))/stat
setsid sh -c "while sleep 0.1; do echo \\$(cat /proc/uptime $disk {commands}); done" \
    >/run/counted 2>&1 </dev/null & echo $! >/run/counted.pid
"""
WATCHED = "kill $(cat /run/counted.pid); cat /run/counted"
ROUNDS = {
    "iscsi": ("open_datasync", "randread"),
    "nvme-tcp": ("open_datasync", "randread", "fdatasync"),
}
# In a round of its own: what bpftrace does as a command ends, the disk counts as well.
SCRIPTS = {
    ("nvme-tcp", "fdatasync"): """
tracepoint:nvmet:nvmet_req_init /args->qid > 0/ { @begin[args->qid, args->cid] = nsecs; }
tracepoint:nvmet:nvmet_req_complete /args->qid > 0/ {
    printf("command %d %d %llu %llu\\n", args->qid, args->cid, @begin[args->qid, args->cid], nsecs);
}
"""
}
# What each counts in whole ms.
SLACK_NS = 1_000_000


@dataclass
class Seen:
    """``counted``: by the target's disk while it was recorded, in the order of its counters;
    ``commands``: by its LIO, 0: it has none; ``watched``: by bpftrace, in order of their ends:
    queue, identifier, begin and end."""

    name: str
    found: Breakdown
    target: Trace
    kind: int
    counted: list[int]
    commands: int
    watched: list[list[int]]


def meanwhile(told: str, target: Trace) -> tuple[list[int], int]:
    """What was counted from before the first request that was recorded until after the last.

    Two looks with nothing between them are before it: what makes the files is not recorded.
    """
    looks = [[float(word) for word in line.split()] for line in told.splitlines()]
    done = target.points["block_rq_complete"].integers("time_ns")["time_ns"]
    first_s, last_s = done.min() / 1e9, done.max() / 1e9
    before = [
        one for one, other in pairwise(looks)
        if target.begin_ns / 1e9 < one[0] and other[0] < first_s and one[2:] == other[2:]
    ]  # fmt: skip
    after = next(one for one in looks if one[0] > last_s)
    counted = [int(more - few) for few, more in zip(before[-1][2:], after[2:], strict=True)]
    return counted[:17], sum(counted[17:])


@pytest.fixture(scope="module", params=["iscsi", "nvme-tcp"])
def measured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Seen]:
    scenario = scenarios()[request.param]
    places = tmp_path_factory.mktemp("counters")
    found = []
    with furnished(scenario, new_lab_directory(request.param), Quiet(), keep=False) as lab:
        target = lab.machines["target"]
        for workload in scenario.rounds():
            if workload.name not in ROUNDS[request.param]:
                continue
            script = SCRIPTS.get((request.param, workload.name), "")
            target.command(WATCH.format(commands=COMMANDS.get(request.param, "")))
            if script:
                watch(lab, "target", script)
            record(lab, workload, places / workload.name, Quiet())
            told = target.command(WATCHED, PATIENCE_S)
            seen = watched(lab, "target") if script else {"command": []}
            recording = open_recording(places / workload.name)
            names = [machine.name for machine in recording.machines]
            trace = recording.traces()[names.index("target")]
            kind = READ if workload.op == "direct" else WRITE
            breakdown = analyse(recording, Op(workload.op))
            commands = [one for one in seen["command"] if one[2] > trace.begin_ns]
            found.append(
                Seen(request.param, breakdown, trace, kind, *meanwhile(told, trace), commands)
            )
    return found


def test_the_disk_counts_the_requests_that_were_recorded(measured: list[Seen]) -> None:
    for seen in measured:
        done = seen.target.points["block_rq_complete"].integers("flags", "size_bytes")
        assert not seen.found.quality.lost
        for kind, (count, sectors, _) in COLUMNS.items():
            mine = (done["flags"] & OPERATION) == kind
            assert seen.counted[count] == np.count_nonzero(mine)
            assert seen.counted[sectors] == done["size_bytes"][mine].sum() // SECTOR
        assert seen.counted[COLUMNS[seen.kind][0]] >= len(seen.found.writes)


def test_the_target_counts_the_commands_that_were_recorded(measured: list[Seen]) -> None:
    """Of NVMe it counts none: there each is a request of its disk, but for flushes."""
    for seen in measured:
        done = seen.target.points[POINTS[seen.name]].integers("size_bytes")["size_bytes"]
        assert seen.commands == (len(done) if seen.name in COMMANDS else 0)
        assert np.count_nonzero(done) == sum(
            seen.counted[count] for count, _, _ in COLUMNS.values()
        )


def test_bpftrace_tells_the_same_commands(measured: list[Seen]) -> None:
    """In the same order, and how long each was the target's: whoever of the two came first as one
    began, the other one did as it ended."""
    told_of = [one for one in measured if one.watched]
    assert len(told_of) == sum(name == measured[0].name for name, _ in SCRIPTS)
    for seen in told_of:
        done = seen.target.points["nvmet_req_complete"].integers("queue", "command", "request_key")
        begun = seen.target.points["nvmet_req_init"].integers("time_ns", "request_key")
        found = AsOf(begun["request_key"], begun["time_ns"])
        began = at(begun["time_ns"], found.at_or_before(done["request_key"], done["time_ns"]))
        told = np.array(seen.watched)
        assert np.array_equal(told[:, 0], done["queue"])
        assert np.array_equal(told[:, 1], done["command"])
        theirs, ours = (told[:, 3] - told[:, 2]).sum(), (done["time_ns"] - began).sum()
        assert abs(theirs - ours) <= 0.02 * ours


def test_the_rows_are_what_the_disk_counts(measured: list[Seen]) -> None:
    """It counts from when a request was made, which is a moment before it is issued, until it has
    told who waits for it, which is the target's; and what is of no write, such as a journal's."""
    for seen in (one for one in measured if not one.watched):
        layers = [layer.name for layer in seen.found.layers]
        rows = dict(zip(layers, seen.found.time_ns.sum(axis=1).tolist(), strict=True))
        device_ns = sum(ns for name, ns in rows.items() if name.startswith("target/device."))
        others = [one for one in seen.found.quality.background if one.machine == "target"]
        more_ns = rows["target/block.Q2D"] + rows["target/target"]
        more_ns += sum(one.time_ns for one in others) + SLACK_NS
        counted_ns = seen.counted[COLUMNS[seen.kind][2]] * 1_000_000
        assert device_ns - SLACK_NS <= counted_ns <= device_ns + more_ns
