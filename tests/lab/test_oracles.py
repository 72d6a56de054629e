# SPDX-License-Identifier: Apache-2.0
"""One NFS workload, seen at once by iostrata and by tools that know nothing of it: the kernel's
own account of each RPC, nfsiostat, a script on the server's block tracepoints, and fio."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from iostrata.analysis import analyse
from iostrata.lab.cache import new_lab_directory
from iostrata.lab.lab import Lab
from iostrata.lab.read import scenarios
from iostrata.lab.record import record
from iostrata.lab.run import furnished
from iostrata.lab.workload import Witness, preparation
from iostrata.model import Breakdown
from iostrata.record.status import Progress
from iostrata.recording import open_recording
from iostrata.trace.read import Trace

pytestmark = [
    pytest.mark.lab,
    # QEMU is known by its number, not by the object that started it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TOLERANCE = 0.03
# What a few calls more or less make, and a clock in whole us.
SLACK = 0.01
# One tool's clock reading of an event is so far from another's at most.
REACH_NS = 1_000_000
# nfsiostat's interval: longer than the workload.
INTERVAL_S = 60
PATIENCE_S = 120.0

# Times in us: it waited to be sent, until its reply came, all of it.
RPC_SCRIPT = """
tracepoint:sunrpc:rpc_stats_latency {
    printf("rpc %u %llu %llu %llu\\n", args->xid, args->backlog, args->rtt, args->execute);
}
"""
# Issued at, sector, and what it took, in ns.
BLOCK_SCRIPT = """
tracepoint:block:block_rq_issue { @issued[args->dev, args->sector, args->nr_sector] = nsecs; }
tracepoint:block:block_rq_complete /@issued[args->dev, args->sector, args->nr_sector]/ {
    $at = @issued[args->dev, args->sector, args->nr_sector];
    printf("block %llu %llu %llu\\n", $at, args->sector, nsecs - $at);
    delete(@issued[args->dev, args->sector, args->nr_sector]);
}
"""


class Quiet:
    def say(self, text: str) -> None:
        pass

    def heard(self, progress: Mapping[str, Progress]) -> None:
        pass


@dataclass
class Seen:
    """``calls``: by xid, backlog, rtt and execute in us.

    ``requests``: of each, when it was issued (ns), its sector, and how long it took (ns).
    """

    breakdown: Breakdown
    client: Trace
    server: Trace
    witness: Witness
    calls: dict[int, tuple[int, int, int]]
    requests: NDArray[np.int64]
    nfsiostat: str


def watch(lab: Lab, machine: str, script: str) -> None:
    """A script of bpftrace there, until it is ended; it has begun when this returns."""
    began = 'BEGIN { printf("began\\n"); }'
    lab.machines[machine].command(
        f"setsid bpftrace -e {shlex.quote(began + script)} >/run/watched 2>/run/watch.log"
        " </dev/null & echo $! >/run/watch.pid;"
        " while ! grep -q began /run/watched; do"
        " kill -0 $(cat /run/watch.pid) || { cat /run/watch.log; exit 1; }; sleep 0.2; done",
        PATIENCE_S,
    )


def watched(lab: Lab, machine: str, kind: str) -> list[list[str]]:
    """The words of its lines that begin with ``kind``; it is ended."""
    said = lab.machines[machine].command(
        "pid=$(cat /run/watch.pid); kill -INT $pid;"
        " while kill -0 $pid 2>/dev/null; do sleep 0.2; done; cat /run/watched",
        PATIENCE_S,
    )
    return [line.split() for line in said.splitlines() if line.startswith(kind)]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    scenario = scenarios()["nfs"]
    workload = next(each for each in scenario.rounds() if each.name == "fdatasync")
    place = tmp_path_factory.mktemp("oracles") / "recording"
    with furnished(scenario, new_lab_directory("nfs"), Quiet(), keep=False) as lab:
        host = lab.machines["host"]
        # What makes the files is not looked at.
        host.command(shlex.join(preparation(workload, "/run/account")) + " && sync", PATIENCE_S)
        watch(lab, "host", RPC_SCRIPT)
        watch(lab, "server", BLOCK_SCRIPT)
        host.command(
            f"setsid sh -c 'nfsiostat {INTERVAL_S} 2 {workload.directory} >/run/nfsiostat;"
            " echo >/run/nfsiostat.done' </dev/null >/dev/null 2>&1 &"
        )
        witness = record(lab, workload, place, Quiet())
        wait = "while ! [ -e /run/nfsiostat.done ]; do sleep 1; done; cat /run/nfsiostat"
        nfsiostat = host.command(wait, PATIENCE_S)
        calls = {
            int(xid): (int(backlog), int(rtt), int(execute))
            for _, xid, backlog, rtt, execute in watched(lab, "host", "rpc")
        }
        requests = [[int(word) for word in words[1:]] for words in watched(lab, "server", "block")]
    recording = open_recording(place)
    traces = dict(zip((m.name for m in recording.machines), recording.traces(), strict=True))
    return Seen(
        analyse(recording), traces["host"], traces["server"], witness,
        calls, np.array(requests, np.int64), nfsiostat,
    )  # fmt: skip


def of_segments(breakdown: Breakdown, *segments: str) -> float:
    """What all writes together spent in them, in ns."""
    rows = [layer.segment in segments for layer in breakdown.layers]
    return float(breakdown.time_ns[rows].sum())


def of_calls(seen: Seen) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of the calls that both know: send to reply as recorded, and the kernel's account; ns."""
    made = seen.client.points["rpc_call"].integers("xid", "send_ns", "reply_ns")
    known = np.array([xid in seen.calls for xid in made["xid"].tolist()])
    account = np.array([seen.calls[xid] for xid in made["xid"][known].tolist()])
    return (made["reply_ns"] - made["send_ns"])[known], account.T * 1000


def test_round_trips_are_the_kernels_own(seen: Seen) -> None:
    """Call by call: from its transmission to its reply, which the kernel tells in us."""
    ours, (_, theirs, _) = of_calls(seen)
    assert len(ours) >= seen.witness.count
    assert abs(ours.sum() / theirs.sum() - 1) <= TOLERANCE


def test_network_and_server_are_what_the_client_waited_for(seen: Seen) -> None:
    """The reply's way from the socket to its call is still within the kernel's round trip, but it
    is this machine's: it is in rpc.reply, with what comes after."""
    _, (_, theirs, _) = of_calls(seen)
    beyond = of_segments(seen.breakdown, "network", "server OS", "device")
    reply = next(n for n, row in enumerate(seen.breakdown.layers) if row.name == "host/rpc.reply")
    with_reply = beyond + seen.breakdown.time_ns[reply].sum()
    assert beyond * (1 - SLACK) <= theirs.sum() <= with_reply * (1 + SLACK)


def test_nfsiostat_agrees(seen: Seen) -> None:
    """Its second report is of the interval: there ops/s, then the mean round trip, of writes."""
    ours, _ = of_calls(seen)
    names, figures = seen.nfsiostat[seen.nfsiostat.rindex("write:") :].splitlines()[:2]
    assert re.findall(r"ops/s|avg RTT", names) == ["ops/s", "avg RTT"]
    per_s, _, _, _, _, round_trip_ms, *_ = figures.split()
    assert abs(float(per_s) * INTERVAL_S / len(ours) - 1) <= SLACK
    assert abs(float(round_trip_ms) * 1e6 / ours.mean() - 1) <= TOLERANCE


def d2c_of(server: Trace) -> dict[tuple[int, int], int]:
    """As recorded: what each request took, by its sector and when it was issued; ns."""
    issued = server.points["block_rq_issue"].integers("sector", "request_key")
    completed = server.points["block_rq_complete"].integers("request_key")
    ends: dict[int, list[int]] = defaultdict(list)
    for key, time_ns in zip(completed["request_key"], completed["time_ns"], strict=True):
        ends[int(key)].append(int(time_ns))
    found = {}
    columns = (issued[name].tolist() for name in ("sector", "request_key", "time_ns"))
    for sector, key, time_ns in zip(*columns, strict=True):
        end_ns = next(each for each in ends[key] if each > time_ns)
        found[sector, time_ns] = end_ns - time_ns
    return found


def test_requests_are_those_of_the_block_tracepoints(seen: Seen) -> None:
    """Issued to completed on the server's disk, request by request."""
    ours = d2c_of(seen.server)
    times = sorted(time_ns for _, time_ns in ours)
    by_sector = defaultdict(list)
    for sector, time_ns in ours:
        by_sector[sector].append(time_ns)
    pairs = [
        (ours[sector, time_ns], took_ns)
        for issued_ns, sector, took_ns in seen.requests.tolist()
        for time_ns in by_sector[sector]
        if abs(time_ns - issued_ns) <= REACH_NS
    ]
    meanwhile = (seen.requests[:, 0] >= times[0]) & (seen.requests[:, 0] <= times[-1])
    assert len(ours) * (1 - SLACK) <= meanwhile.sum() <= len(pairs) <= len(ours)
    recorded_ns, told_ns = np.sum(pairs, axis=0)
    assert abs(recorded_ns / told_ns - 1) <= TOLERANCE


def test_the_devices_rows_are_what_its_requests_took(seen: Seen) -> None:
    """One write at a time has one request at a time; some of the server's are nobody's."""
    rows_ns = of_segments(seen.breakdown, "device")
    assert abs(rows_ns / seen.requests[:, 2].sum() - 1) <= TOLERANCE


def test_the_clients_writes_are_fios(seen: Seen) -> None:
    assert len(seen.breakdown.writes) == seen.witness.count
    mean_ns = seen.breakdown.writes.latency_ns.mean()
    assert abs(mean_ns / seen.witness.mean_ns - 1) <= TOLERANCE
