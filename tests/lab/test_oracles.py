# SPDX-License-Identifier: Apache-2.0
"""One NFS workload, seen at once by iostrata and by tools that know nothing of it: the kernel's
own account of each RPC, nfsiostat, nfsslower, a script on the server's block layer, and fio."""

from __future__ import annotations

import csv
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from iostrata.analysis import analyse
from iostrata.lab.cache import new_lab_directory
from iostrata.lab.lab import Lab
from iostrata.lab.read import scenarios
from iostrata.lab.record import record
from iostrata.lab.run import furnished
from iostrata.lab.steps.service import Service
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
# nfsiostat's interval; on a busy machine the workload takes several.
INTERVAL_S = 60
PATIENCE_S = 120.0

# Times in us: it waited to be sent, until its reply came, all of it.
RPC_SCRIPT = """
tracepoint:sunrpc:rpc_stats_latency {
    printf("rpc %u %llu %llu %llu\\n", args->xid, args->backlog, args->rtt, args->execute);
}
"""
# Of a request its sector, when it was issued and completed, and who issued it; of the server's
# threads when they slept, and since when they could have run again until they did; in ns. Requests
# at the functions that have the tracepoints: a program of a tracepoint is passed over where an
# interrupt meets another one on its CPU (trace_call_bpf), and with it one completion in 200.
SERVER_SCRIPT = """
kfunc:blk_mq_start_request {
    @issued[(uint64)args->rq] = nsecs;
    @issuer[(uint64)args->rq] = tid;
}
kfunc:blk_update_request /@issued[(uint64)args->req]/ {
    printf("block %llu %llu %llu %d\\n", args->req->__sector, @issued[(uint64)args->req], nsecs,
           @issuer[(uint64)args->req]);
    delete(@issued[(uint64)args->req]);
    delete(@issuer[(uint64)args->req]);
}
tracepoint:sched:sched_switch /args->prev_comm == "nfsd"/ {
    if ((args->prev_state & 0xff) == 0) { @ready[args->prev_pid] = nsecs; }
    else { @off[args->prev_pid] = nsecs; }
}
tracepoint:sched:sched_waking /@off[args->pid]/ {
    printf("slept %d %llu %llu\\n", args->pid, @off[args->pid], nsecs);
    delete(@off[args->pid]);
    @ready[args->pid] = nsecs;
}
tracepoint:sched:sched_switch /@ready[args->next_pid]/ {
    printf("queued %d %llu %llu\\n", args->next_pid, @ready[args->next_pid], nsecs);
    delete(@ready[args->next_pid]);
}
"""
# Each fsync of NFS's file system; it has begun when this returns.
NFSSLOWER = """
setsid stdbuf -oL nfsslower -c -m 0 >/run/nfsslower 2>&1 </dev/null &
echo $! >/run/nfsslower.pid
until grep -q LATENCY /run/nfsslower; do
    kill -0 $(cat /run/nfsslower.pid) || { cat /run/nfsslower; exit 1; }
    sleep 0.5
done
"""
# What it prints may wait for a CPU for long.
ROOM_PAGES = 1024

Spans = NDArray[np.int64]
"""A row each: begin and end, in ns, and what else there is."""


class Quiet:
    def say(self, text: str) -> None:
        pass

    def heard(self, progress: Mapping[str, Progress]) -> None:
        pass


@dataclass
class Seen:
    """``calls``: by xid, backlog, rtt and execute in us.

    ``requests``: of the server's disk, by sector, in order: begin, end, and who issued it.
    ``slept``, ``queued``: its threads, and while they waited for a CPU.
    """

    breakdown: Breakdown
    client: Trace
    server: Trace
    witness: Witness
    calls: dict[int, tuple[int, int, int]]
    requests: dict[int, Spans]
    slept: dict[int, Spans]
    queued: dict[int, Spans]
    nfsiostat: str
    nfsslower: str


def watch(lab: Lab, machine: str, script: str) -> None:
    """A script of bpftrace there, until it is ended; it has begun when this returns."""
    began = 'BEGIN { printf("began\\n"); }'
    lab.machines[machine].command(
        f"export BPFTRACE_PERF_RB_PAGES={ROOM_PAGES};"
        f" setsid bpftrace -e {shlex.quote(began + script)} >/run/watched 2>/run/watch.log"
        " </dev/null & echo $! >/run/watch.pid;"
        " while ! grep -q began /run/watched; do"
        " kill -0 $(cat /run/watch.pid) || { cat /run/watch.log; exit 1; }; sleep 0.2; done",
        PATIENCE_S,
    )


def watched(lab: Lab, machine: str) -> dict[str, list[list[int]]]:
    """What it said, by the first word of each line; it is ended."""
    said = lab.machines[machine].command(
        "pid=$(cat /run/watch.pid); kill -INT $pid;"
        " while kill -0 $pid 2>/dev/null; do sleep 0.2; done; cat /run/watched",
        PATIENCE_S,
    )
    assert "Lost" not in said
    found = defaultdict(list)
    for line in filter(None, map(str.split, said.splitlines())):
        kind, *numbers = line
        if numbers and all(number.isdigit() for number in numbers):
            found[kind].append([int(number) for number in numbers])
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    nfs = scenarios()["nfs"]
    tools = Service(name="tools", machine="host", install=("libbpf-tools",))
    scenario = msgspec.structs.replace(nfs, stack=(*nfs.stack, tools))
    workload = next(each for each in scenario.rounds() if each.name == "fdatasync")
    place = tmp_path_factory.mktemp("oracles") / "recording"
    with furnished(scenario, new_lab_directory("nfs"), Quiet(), keep=False) as lab:
        host = lab.machines["host"]
        # What makes the files is not looked at.
        host.command(shlex.join(preparation(workload, "/run/account")) + " && sync", PATIENCE_S)
        watch(lab, "host", RPC_SCRIPT)
        watch(lab, "server", SERVER_SCRIPT)
        host.command(NFSSLOWER, PATIENCE_S)
        host.command(
            f"PYTHONUNBUFFERED=1 setsid nfsiostat {INTERVAL_S} {workload.directory}"
            " >/run/nfsiostat 2>&1 </dev/null & echo $! >/run/nfsiostat.pid"
        )
        witness = record(lab, workload, place, Quiet())
        nfsiostat = host.command(
            "reports() { grep -c ^write: /run/nfsiostat; }; before=$(reports)\n"
            "while [ $(reports) -le $before ]; do sleep 1; done; sleep 1\n"
            "kill $(cat /run/nfsiostat.pid); cat /run/nfsiostat", PATIENCE_S
        )  # fmt: skip
        nfsslower = host.command(
            "kill -INT $(cat /run/nfsslower.pid); sleep 1; cat /run/nfsslower", PATIENCE_S
        )
        told = watched(lab, "host")["rpc"]
        server = watched(lab, "server")
    calls = {xid: (backlog, rtt, execute) for xid, backlog, rtt, execute in told}
    recording = open_recording(place)
    traces = dict(zip((m.name for m in recording.machines), recording.traces(), strict=True))
    return Seen(
        analyse(recording), traces["host"], traces["server"], witness,
        calls, by_first(server["block"]), by_first(server["slept"]), by_first(server["queued"]),
        nfsiostat, nfsslower,
    )  # fmt: skip


def by_first(told: Iterable[Sequence[int]]) -> dict[int, Spans]:
    """By the first number of each row, the others, in order."""
    found = defaultdict(list)
    for first, *others in told:
        found[first].append(others)
    return {first: np.array(sorted(spans), np.int64) for first, spans in found.items()}


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
    """Each report but the first is of an interval: there ops/s, then the mean round trip, of
    writes."""
    ours, _ = of_calls(seen)
    _, _, *reports = seen.nfsiostat.split("\nwrite:")
    per_s, round_trip_ms = [], []
    for names, figures in (report.splitlines()[:2] for report in reports):
        assert re.findall(r"ops/s|avg RTT", names) == ["ops/s", "avg RTT"]
        count, _, _, _, _, mean, *_ = figures.split()
        per_s.append(float(count))
        round_trip_ms.append(float(mean))
    assert abs(sum(per_s) * INTERVAL_S / len(ours) - 1) <= SLACK
    mean_ms = np.average(round_trip_ms, weights=per_s)
    assert abs(mean_ms * 1e6 / ours.mean() - 1) <= TOLERANCE


def recorded(server: Trace) -> dict[int, Spans]:
    """As recorded: each request from issue to completion, by sector."""
    issued = server.points["block_rq_issue"].integers("sector", "request_key")
    completed = server.points["block_rq_complete"].integers("request_key")
    ends: dict[int, list[int]] = defaultdict(list)
    for key, time_ns in zip(completed["request_key"], completed["time_ns"], strict=True):
        ends[int(key)].append(int(time_ns))
    columns = (issued[name].tolist() for name in ("sector", "time_ns", "request_key"))
    return by_first(
        (sector, time_ns, next(each for each in ends[key] if each > time_ns))
        for sector, time_ns, key in zip(*columns, strict=True)
    )


def paired(ours: dict[int, Spans], theirs: dict[int, Spans]) -> list[tuple[int, int]]:
    """What those took that both know, in ns. A request is not at the disk before all have seen it
    issued, however late that was, nor is its sector there twice: the same one overlaps."""
    found = []
    for sector, mine in ours.items():
        for begin_ns, end_ns in mine.tolist():
            others = theirs.get(sector, np.empty((0, 2), np.int64))
            same = others[(others[:, 0] < end_ns) & (begin_ns < others[:, 1])]
            found += [(end_ns - begin_ns, int(other[1] - other[0])) for other in same]
    return found


def test_requests_are_those_that_the_block_layer_has(seen: Seen) -> None:
    """Issued to completed on the server's disk, request by request."""
    ours = recorded(seen.server)
    pairs = paired(ours, seen.requests)
    assert len(pairs) == sum(map(len, ours.values()))
    first, last = (pick(np.concatenate([*ours.values()])) for pick in (np.min, np.max))
    theirs = np.concatenate([*seen.requests.values()])
    assert np.count_nonzero((theirs[:, 0] < last) & (theirs[:, 1] > first)) == len(pairs)
    recorded_ns, told_ns = np.sum(pairs, axis=0)
    assert abs(recorded_ns / told_ns - 1) <= TOLERANCE


def overlap_ns(begin_ns: int, end_ns: int, spans: Spans) -> int:
    shared = np.minimum(spans[:, 1], end_ns) - np.maximum(spans[:, 0], begin_ns)
    return int(np.maximum(shared, 0).sum())


def test_the_devices_rows_are_what_its_requests_took(seen: Seen) -> None:
    """One write at a time: what its thread asked for, but where that thread waits for a CPU, and
    what the journal did, while it slept. Both were 4 % of the disk's time when it was looked at."""
    ours = np.concatenate([*recorded(seen.server).values()])
    requests = np.concatenate([*seen.requests.values()])
    requests = requests[(requests[:, 0] < ours.max()) & (requests[:, 1] > ours.min())]
    thread, waited_ns = 0, 0
    for begin_ns, end_ns, issuer in requests[np.argsort(requests[:, 0])].tolist():
        if issuer in seen.slept:
            thread = issuer
            waited_ns += end_ns - begin_ns - overlap_ns(begin_ns, end_ns, seen.queued[thread])
        elif thread:
            waited_ns += overlap_ns(begin_ns, end_ns, seen.slept[thread])
    assert abs(of_segments(seen.breakdown, "device") / waited_ns - 1) <= TOLERANCE


def test_the_clients_writes_are_fios(seen: Seen) -> None:
    """fio's clock is read outside of the calls: what is between them, with every tool's programs
    on each call, is its own as well. It was 6 % of a write."""
    writes = seen.breakdown.writes
    assert len(writes) == seen.witness.count
    least_ns = writes.latency_ns.mean()
    most_ns = (writes.end_ns.max() - writes.begin_ns.min()) / len(writes)
    assert least_ns * (1 - TOLERANCE) <= seen.witness.mean_ns <= most_ns * (1 + TOLERANCE)


def syncs_ns(breakdown: Breakdown, trace: Trace) -> list[int]:
    """What each write's last call took, from its beginning to its end."""
    calls = trace.points["syscall"].integers("tid", "time_ns", "enter_ns")
    ends = zip(*(calls[name].tolist() for name in ("tid", "time_ns")), strict=True)
    enters = dict(zip(ends, calls["enter_ns"].tolist(), strict=True))
    own = zip(breakdown.writes.tid.tolist(), breakdown.writes.end_ns.tolist(), strict=True)
    return [end_ns - enters[tid, end_ns] for tid, end_ns in own]


def agree_with_slower(said: str, ours: Sequence[int]) -> None:
    """The times of those tools are of the file system's function, which is within the call."""
    rows = csv.reader(said.splitlines())
    theirs = [float(row[6]) for row in rows if len(row) >= 8 and "fio" in row[1] and row[3] in "SF"]
    assert abs(len(theirs) - len(ours)) <= max(SLACK * len(ours), 2)
    assert -TOLERANCE <= 1 - np.mean(theirs) * 1e3 / np.mean(ours) <= 2 * TOLERANCE


def test_syncs_are_those_of_nfsslower(seen: Seen) -> None:
    agree_with_slower(seen.nfsslower, syncs_ns(seen.breakdown, seen.client))
