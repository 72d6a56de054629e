# SPDX-License-Identifier: Apache-2.0
"""A disk over a wire, and what its target counts itself: the kernel's own account of the disk
(/sys/block/*/stat), and of the commands of iSCSI (LIO's statistics)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.lab.cache import new_lab_directory
from iostrata.lab.read import scenarios
from iostrata.lab.record import record
from iostrata.lab.run import furnished
from iostrata.model import Breakdown, Op
from iostrata.recording import open_recording
from iostrata.trace import Trace
from tests.lab.test_oracles import PATIENCE_S, Quiet

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
# What each counts in whole ms.
SLACK_NS = 1_000_000


@dataclass
class Seen:
    """``counted``: by the target's disk while it was recorded, in the order of its counters;
    ``commands``: by its LIO, 0: it has none."""

    name: str
    found: Breakdown
    target: Trace
    kind: int
    counted: list[int]
    commands: int


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
            if workload.name not in ("open_datasync", "randread"):
                continue
            target.command(WATCH.format(commands=COMMANDS.get(request.param, "")))
            record(lab, workload, places / workload.name, Quiet())
            told = target.command(WATCHED, PATIENCE_S)
            recording = open_recording(places / workload.name)
            names = [machine.name for machine in recording.machines]
            trace = recording.traces()[names.index("target")]
            kind = READ if workload.op == "direct" else WRITE
            breakdown = analyse(recording, Op(workload.op))
            found.append(Seen(request.param, breakdown, trace, kind, *meanwhile(told, trace)))
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


def test_the_rows_are_what_the_disk_counts(measured: list[Seen]) -> None:
    """It counts from when a request was made, which is a moment before it is issued, until it has
    told who waits for it, which is the target's; and what is of no write, such as a journal's."""
    for seen in measured:
        layers = [layer.name for layer in seen.found.layers]
        rows = dict(zip(layers, seen.found.time_ns.sum(axis=1).tolist(), strict=True))
        device_ns = sum(ns for name, ns in rows.items() if name.startswith("target/device."))
        others = [one for one in seen.found.quality.background if one.machine == "target"]
        more_ns = rows["target/block.Q2D"] + rows["target/target"]
        more_ns += sum(one.time_ns for one in others) + SLACK_NS
        counted_ns = seen.counted[COLUMNS[seen.kind][2]] * 1_000_000
        assert device_ns - SLACK_NS <= counted_ns <= device_ns + more_ns
