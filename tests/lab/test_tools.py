# SPDX-License-Identifier: Apache-2.0
"""One workload on a local disk, seen at once by iostrata and by the tools that people trust.

docs/oracles.md says what each of them measures, and what differs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.lab.cache import new_lab_directory
from iostrata.lab.lab import Lab
from iostrata.lab.read import scenarios
from iostrata.lab.record import record, rehearse
from iostrata.lab.run import furnished
from iostrata.lab.scenario import Scenario
from iostrata.lab.steps.service import Service
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.trace.read import Trace
from tests.lab.test_oracles import SLACK, TOLERANCE, Quiet, agree_with_slower, syncs_ns

pytestmark = [
    pytest.mark.lab,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PATIENCE_S = 120.0
PACKAGES = ("blktrace", "libbpf-tools", "trace-cmd")
# What the tools saw at most of the files' being made, before the recording began.
BEFORE = 10
Spans = list[tuple[int, float]]
"""What each request took, in ns, behind its sector; in order of time."""


@dataclass(frozen=True)
class Tool:
    """``begun``: what it says once it watches, or ``watches`` succeeds.

    ``said``: a command whose output is read in place of its own.
    """

    name: str
    command: str
    begun: str = ""
    watches: str = ""
    said: str = ""


# Each of them sees what the next one sees, and what comes before and behind it.
TOOLS = (
    Tool("trace-cmd",
         "trace-cmd record -C mono -e block:block_rq_issue -e block:block_rq_complete"
         " -o /run/trace.dat", "Hit", said="trace-cmd report -t -i /run/trace.dat"),
    Tool("blktrace", "blktrace -d $disk -D /run -o blk", watches="test -e /run/blk.blktrace.0",
         said="blkparse -q -D /run -i blk -a queue -a issue -a complete"
         " -f '%a %S %n %T %t\\n'"),
    Tool("ext4slower", "ext4slower -c -m 0", "LATENCY"),
    Tool("biolatency", "biolatency -d $(basename $disk)", "Tracing"),
)  # fmt: skip


@dataclass
class Seen:
    breakdown: Breakdown
    trace: Trace
    said: dict[str, str]


def of_tools(scenario: Scenario) -> Scenario:
    tools = Service(name="tools", machine="local", install=PACKAGES)
    return msgspec.structs.replace(scenario, stack=(*scenario.stack, tools))


def begin(lab: Lab, tool: Tool) -> None:
    """It watches when this returns."""
    command = tool.command.replace("$disk", "$(findmnt -n -o SOURCE /mnt/data)")
    lab.machines["local"].command(
        f"cd /run\nexport PYTHONUNBUFFERED=1\n"
        f"setsid stdbuf -oL {command} >/run/{tool.name}.out 2>&1 </dev/null &\n"
        f"echo $! >/run/{tool.name}.pid\n"
        f"until {{ {tool.watches or f'grep -q {tool.begun} /run/{tool.name}.out'}; }}; do\n"
        f"kill -0 $(cat /run/{tool.name}.pid) || {{ cat /run/{tool.name}.out; exit 1; }}\n"
        "sleep 0.5\ndone",
        PATIENCE_S,
    )


def end(lab: Lab, tool: Tool) -> str:
    """What it has said, or was told to."""
    return lab.machines["local"].command(
        f"cd /run\npid=$(cat /run/{tool.name}.pid); kill -INT $pid\n"
        "while kill -0 $pid 2>/dev/null; do sleep 0.2; done\n"
        f"{tool.said or f'cat /run/{tool.name}.out'}",
        PATIENCE_S,
    )


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    scenario = of_tools(scenarios()["local"])
    workload = next(each for each in scenario.rounds() if each.name == "fdatasync")
    place = tmp_path_factory.mktemp("tools") / "recording"
    with furnished(scenario, new_lab_directory("tools"), Quiet(), keep=False) as lab:
        rehearse(lab, workload)
        for tool in TOOLS:
            begin(lab, tool)
        record(lab, workload, place, Quiet())
        said = {tool.name: end(lab, tool) for tool in reversed(TOOLS)}
    recording = open_recording(place)
    (trace,) = recording.traces()
    return Seen(analyse(recording), trace, said)


def paired(begins: Iterable[tuple[int, int]], ends: Iterable[tuple[int, int]]) -> Spans:
    """Of each (sector, ns), to the next of the same sector."""
    after = defaultdict(list)
    for sector, time_ns in ends:
        after[sector].append(time_ns)
    found = []
    for sector, time_ns in begins:
        later = [each for each in after[sector] if each >= time_ns]
        if later:
            found.append((sector, float(later[0] - time_ns)))
    return found


def recorded(trace: Trace, begin: str, end: str = "block_rq_complete") -> Spans:
    """With data: from one point to the other."""
    columns = {}
    for point in (begin, end):
        events = trace.points[point].integers("sector", "time_ns", "size_bytes")
        data = events["size_bytes"] > 0
        sectors, times = events["sector"][data].tolist(), events["time_ns"][data].tolist()
        columns[point] = list(zip(sectors, times, strict=True))
    return paired(columns[begin], columns[end])


def agree(ours: Spans, theirs: Spans) -> None:
    """Request by request, where both know the same number of a sector's."""
    assert -2 <= len(theirs) - len(ours) <= SLACK * len(ours) + BEFORE
    by_sector: tuple[defaultdict[int, list[float]], ...] = (defaultdict(list), defaultdict(list))
    for known, spans in zip(by_sector, (ours, theirs), strict=True):
        for sector, ns in spans:
            known[sector].append(ns)
    pairs = [
        pair
        for sector, mine in by_sector[0].items()
        if len(mine) == len(by_sector[1][sector])
        for pair in zip(mine, by_sector[1][sector], strict=True)
    ]
    assert len(pairs) >= 0.95 * len(ours)
    ours_ns, theirs_ns = np.sum(pairs, axis=0)
    assert abs(ours_ns / theirs_ns - 1) <= TOLERANCE


def traced(said: str) -> dict[str, list[tuple[int, int, int]]]:
    """What trace-cmd has of each kind: sector, sectors and ns."""
    kinds: dict[str, list[tuple[int, int, int]]] = {"issue": [], "complete": []}
    line = r" ([\d.]+): block_rq_(issue|complete): .* (\d+) \+ (\d+) \["
    for time, kind, sector, sectors in re.findall(line, said):
        kinds[kind].append((int(sector), int(sectors), round(float(time) * 1e9)))
    return kinds


def of_trace_cmd(said: str) -> Spans:
    kinds = {
        kind: [(sector, time_ns) for sector, sectors, time_ns in each if sectors]
        for kind, each in traced(said).items()
    }
    return paired(kinds["issue"], kinds["complete"])


def of_blktrace(said: str, begins: str) -> Spans:
    kinds: dict[str, list[tuple[int, int]]] = {"Q": [], "D": [], "C": []}
    for line in said.splitlines():
        words = line.split()
        if len(words) >= 5 and words[0] in kinds and int(words[2]):
            time_ns = int(words[3]) * 1_000_000_000 + int(words[4])
            kinds[words[0]].append((int(words[1]), time_ns))
    return paired(kinds[begins], kinds["C"])


# biosnoop, and bcc's biolatency, are refused by Linux 6.1: see docs/oracles.md.
REQUESTS: dict[str, tuple[str, Callable[[Seen], Spans]]] = {
    "trace-cmd": ("block_rq_issue", lambda seen: of_trace_cmd(seen.said["trace-cmd"])),
    "blktrace-D2C": ("block_rq_issue", lambda seen: of_blktrace(seen.said["blktrace"], "D")),
    "blktrace-Q2C": ("block_bio_queue", lambda seen: of_blktrace(seen.said["blktrace"], "Q")),
}


@pytest.mark.parametrize("tool", REQUESTS)
def test_requests_are_those_of_the_tool(seen: Seen, tool: str) -> None:
    point, theirs = REQUESTS[tool]
    agree(recorded(seen.trace, point), theirs(seen))


def test_biolatencys_histogram_is_of_the_same_requests(seen: Seen) -> None:
    """In powers of two of us: with the cache's flushes, which have no data. It began before the
    recording: what came between, it and trace-cmd have both."""
    issued = len(seen.trace.points["block_rq_issue"])
    rows = re.findall(r"^ +(\d+) -> (\d+) +: (\d+)", seen.said["biolatency"], re.MULTILINE)
    around = len(traced(seen.said["trace-cmd"])["complete"])
    assert issued <= sum(int(count) for _, _, count in rows) <= around
    spans = [ns for _, ns in recorded(seen.trace, "block_rq_issue")]
    low, high = (1e3 * int(edge) for edge in (rows[0][0], rows[-1][1]))
    assert low <= min(spans) * (1 + TOLERANCE)
    assert max(spans) * (1 - TOLERANCE) <= high + 1e3


@pytest.mark.parametrize("tool", ["ext4slower"])
def test_syncs_are_those_of_the_tool(seen: Seen, tool: str) -> None:
    agree_with_slower(seen.said[tool], syncs_ns(seen.breakdown, seen.trace))
