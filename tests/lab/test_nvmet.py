# SPDX-License-Identifier: Apache-2.0
"""A target of NVMe over TCP, beside bpftrace: the same commands, in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from iostrata.columns import AsOf, at
from iostrata.lab.cache import new_lab_directory
from iostrata.lab.read import scenarios
from iostrata.lab.record import record, rehearse
from iostrata.lab.run import furnished
from iostrata.recording import open_recording
from iostrata.trace import Trace
from tests.lab.test_oracles import SLACK, Quiet, watch, watched

pytestmark = [
    pytest.mark.lab,
    # QEMU is known by its number, not by the object that started it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SCRIPT: Final = """
tracepoint:nvmet:nvmet_req_init /args->qid > 0/ { @begin[args->qid, args->cid] = nsecs; }
tracepoint:nvmet:nvmet_req_complete /args->qid > 0/ {
    printf("command %d %d %llu %llu\\n", args->qid, args->cid, @begin[args->qid, args->cid], nsecs);
}
"""


def test_bpftrace_tells_the_same_commands(tmp_path: Path) -> None:
    scenario = scenarios()["nvme-tcp"]
    workload = next(one for one in scenario.rounds() if one.name == "fdatasync")
    with furnished(scenario, new_lab_directory("nvmet"), Quiet(), keep=False) as lab:
        rehearse(lab, workload)
        watch(lab, "target", SCRIPT)
        record(lab, workload, tmp_path / "nvmet", Quiet())
        told = watched(lab, "target")["command"]
    recording = open_recording(tmp_path / "nvmet")
    names = [machine.name for machine in recording.machines]
    agree(recording.traces()[names.index("target")], told)


def agree(target: Trace, told: list[list[int]]) -> None:
    """bpftrace also has what comes before the recording and after it: what was written when the
    files were made, and the journal's, seconds later. Of the rest it has nothing that was not
    recorded, and lacks what it was passed over for (trace_call_bpf): one of 2076 when it was looked
    at. How long a command is the target's: whoever of the two comes first as it begins, the other
    one does as it ends."""
    done = target.points["nvmet_req_complete"].integers("queue", "command", "request_key")
    begun = target.points["nvmet_req_init"].integers("request_key")
    found = AsOf(begun["request_key"], begun["time_ns"])
    began = at(begun["time_ns"], found.at_or_before(done["request_key"], done["time_ns"]))
    meanwhile = [one for one in told if one[2] > target.begin_ns and one[3] < target.end_ns]
    ours, both = iter(range(len(began))), []
    for queue, command, *_ in meanwhile:
        same = (n for n in ours if (done["queue"][n], done["command"][n]) == (queue, command))
        both.append(next(same, -1))
    assert -1 not in both
    assert len(both) >= (1 - SLACK) * len(began)
    theirs_ns = sum(one[3] - one[2] for one in meanwhile)
    ours_ns = (done["time_ns"] - began)[both].sum()
    assert abs(theirs_ns / ours_ns - 1) <= 0.02
