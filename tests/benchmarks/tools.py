# SPDX-License-Identifier: Apache-2.0
"""What recording takes of a machine's processor, and what other tools do, in a machine of the lab.

    python -m tests.benchmarks.tools [--tool NAME ...] [--rounds N] [--bursts N] [--writes N]

One process writes 8 KB and calls fdatasync, on ext4 on a disk, with nobody looking on and with each
tool, in turns: a tool stands against what was before it and behind it. What counts is how long the
machine's only processor was not idle: the writer's, the kernel's and the tool's own work. Its clock
counts what it executes, so that nobody else's is in that: ratios say something, times do not.
"""

from __future__ import annotations

import argparse
import random
import re
import shlex
import statistics
from dataclasses import dataclass

import msgspec

from iostrata.errors import LabError
from iostrata.lab.cache import new_lab_directory
from iostrata.lab.lab import Lab
from iostrata.lab.machine import RunningMachine
from iostrata.lab.read import scenarios
from iostrata.lab.record import RECORDER
from iostrata.lab.run import furnished
from iostrata.lab.scenario import Scenario, with_keys
from iostrata.lab.steps.service import Service
from tests.benchmarks.parts.counting import counting
from tests.benchmarks.parts.recording import ROOT
from tests.benchmarks.parts.spent import told
from tests.benchmarks.parts.story import Story
from tests.lab.test_tools import PACKAGES, Tool, begin, end

WRITER = """
import os, sys
file = os.open("/mnt/data/written", os.O_RDWR | os.O_CREAT, 0o600)
os.pwrite(file, bytes(1 << 20), 0)
os.fsync(file)
data = bytes(8192)
for line in open("/run/go"):
    for number in range(int(line)):
        os.pwrite(file, data, number * 8192 % (1 << 20))
        os.fdatasync(file)
    with open("/run/written", "w") as done:
        done.write("\\n")
"""
BEGIN_WRITER = """mkfifo /run/go /run/written
setsid python3 -c {} >/run/writer.log 2>&1 </dev/null & echo $! >/run/writer
setsid sleep infinity >/run/go 2>/dev/null </dev/null & sleep 2"""
# The time, and for how long of it the processor was idle, and was so while a disk was waited for.
LOOK = r"sed -nE 's/^(now at| *\.(idle|iowait)_sleeptime *:) ([0-9]+) nsecs/\3/p' /proc/timer_list"
BURST = f"{LOOK}; echo {{}} >/run/go; read line </run/written; sleep 0.5; {LOOK}"
# As the script for bpftrace has them; all that a kernel has of each.
SCRIPT = ROOT / "bpf" / "iostrata.bt"
POINTS = re.findall(r"^tracepoint:([\w:*]+)", SCRIPT.read_text(), re.MULTILINE)
POINTS = [*dict.fromkeys(POINTS)]
BY_THREAD = ("sched:sched_switch", "sched:sched_waking")
OTHERS = ",".join(f"tracepoint:{each}" for each in POINTS if each not in BY_THREAD)
COUNTS = f"tracepoint:{',tracepoint:'.join(POINTS)} {{ @[probe] = count(); }}"
# What it would say of itself would have no end.
PRINTS = f"""
{OTHERS} /comm != "bpftrace"/ {{ printf("%s %llu %d\\n", probe, nsecs, tid); }}
tracepoint:sched:sched_switch /args->prev_pid == $1 || args->next_pid == $1/ {{
    printf("%s %llu %d\\n", probe, nsecs, args->next_pid);
}}
tracepoint:sched:sched_waking /args->pid == $1/ {{ printf("%s %llu %d\\n", probe, nsecs, tid); }}
"""
# bpftrace says that it begins before it has attached what it is to look at.
ATTACHED = "test $(ls -l /proc/$(cat /run/{}.pid)/fd | grep -c perf_event) -ge {}"
SIZE = "stat -c %s /run/{}.out"
TOOLS = {
    tool.name: tool
    for tool in (
        Tool("iostrata",
             f"{RECORDER} -o /run/recording --pid $(cat /run/writer) --status-fd 1", "ready",
             said="cat /run/recording/cpu_* | wc -c; rm -r /run/recording"),
        Tool("bpftrace-prints", f"bpftrace -e {shlex.quote(PRINTS)} $(cat /run/writer)",
             watches=ATTACHED.format("bpftrace-prints", len(POINTS)),
             said=SIZE.format("bpftrace-prints")),
        Tool("bpftrace-counts", f"bpftrace -e {shlex.quote(COUNTS)}",
             watches=ATTACHED.format("bpftrace-counts", len(POINTS)),
             said=SIZE.format("bpftrace-counts")),
        Tool("trace-cmd",
             f"trace-cmd record {' '.join(f'-e {shlex.quote(each)}' for each in POINTS)}"
             " -o /run/trace.dat", "Hit", said="stat -c %s /run/trace.dat"),
        Tool("blktrace", "blktrace -d $disk -D /run -o blk",
             watches="test -e /run/blk.blktrace.0", said="cat /run/blk.blktrace.* | wc -c"),
        Tool("biolatency", "biolatency -d $(basename $disk)", "Tracing",
             said=SIZE.format("biolatency")),
        Tool("ext4slower", "ext4slower -c -m 0", "LATENCY", said=SIZE.format("ext4slower")),
    )
}  # fmt: skip
SETTLED = "sleep 3"
# By the machine's own clock: how busy this machine's disk is does not matter.
DISK_NS = 1_000_000
LIMIT_S = 120


@dataclass(frozen=True)
class Turn:
    """Of one tool, or of nobody: ns of a processor a write of each burst, and bytes a write."""

    tool: str
    bursts: list[float]
    bytes: float = 0


def of_tools(scenario: Scenario) -> Scenario:
    tools = Service(name="tools", machine="local", install=PACKAGES, load=("xfs",))
    took = {"completion_ns": DISK_NS}
    stack = with_keys(scenario.stack, {"slow": took, "log": took})
    return msgspec.structs.replace(scenario, stack=(*stack, tools))


def busy_ns(said: str) -> int:
    """Between two looks: the time that passed, less that in which the processor was idle."""
    begin_ns, *idle_before, end_ns, idle_ns, waiting_ns = map(int, said.split())
    return end_ns - begin_ns - (idle_ns + waiting_ns - sum(idle_before))


def burst_ns(machine: RunningMachine, writes: int) -> float:
    return busy_ns(machine.command(BURST.format(writes), LIMIT_S)) / writes


def turn_of(lab: Lab, tool: Tool | None, bursts: int, writes: int) -> Turn:
    """The first burst does not count: what never ran is translated first."""
    machine, name = lab.machines["local"], tool.name if tool else ""
    if tool:
        begin(lab, tool)
    machine.command(SETTLED)
    found = [burst_ns(machine, writes) for _ in range(bursts + 1)]
    size = int(end(lab, tool).split()[-1]) if tool else 0
    Story().say(f"{name or 'nobody'}: {' '.join(f'{ns / 1000:.0f}' for ns in found)} us a write")
    return Turn(name, found[1:], size / writes / len(found))


def costs(turns: list[Turn], tool: str) -> list[tuple[float, float]]:
    """Of each burst: against those without a tool before and behind it, and how much more; ns."""
    found = []
    for before, turn, after in zip(turns, turns[1:], turns[2:], strict=False):
        if turn.tool == tool:
            without = statistics.mean([*before.bursts, *after.bursts])
            found += [(one / without, one - without) for one in turn.bursts]
    return found


def measured(tools: list[Tool], rounds: int, bursts: int, writes: int) -> list[Turn]:
    """``tools``: those that the kernel refuses are removed."""
    scenario = of_tools(scenarios()["local-delay"])
    directory = new_lab_directory("tools")
    with counting(), furnished(scenario, directory, Story(), keep=False) as lab:
        lab.machines["local"].command(BEGIN_WRITER.format(shlex.quote(WRITER)))
        turns = [turn_of(lab, None, bursts, writes)]
        for number in range(rounds):
            Story().say(f"round {number + 1} of {rounds}")
            for tool in random.sample(tools, len(tools)):
                try:
                    turns.append(turn_of(lab, tool, bursts, writes))
                except LabError as error:
                    Story().say(f"left out: {error}")
                    lab.machines["local"].command(f"kill -9 $(cat /run/{tool.name}.pid) || true")
                    tools.remove(tool)
                else:
                    turns.append(turn_of(lab, None, bursts, writes))
    return turns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", choices=[*TOOLS], nargs="*", default=[*TOOLS])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--bursts", type=int, default=2)
    parser.add_argument("--writes", type=int, default=1000)
    arguments = parser.parse_args()
    tools = [TOOLS[name] for name in arguments.tool]
    turns = measured(tools, arguments.rounds, arguments.bursts, arguments.writes)
    bare = [one for turn in turns if not turn.tool for one in turn.bursts]
    bare_us = statistics.median(bare) / 1000
    print(f"a write: {bare_us:.0f} us of the processor, 2 ns for each instruction;")
    print("beside a tool so many times that, and so much more; bytes a write that it keeps")
    for tool in tools:
        found = costs(turns, tool.name)
        more = statistics.median(more_ns for _, more_ns in found)
        size = statistics.mean(turn.bytes for turn in turns if turn.tool == tool.name)
        times = told([ratio for ratio, _ in found])
        print(f"  {tool.name:16} {times}  {more / 1000:+5.0f} us  {size:5.0f} bytes")


if __name__ == "__main__":
    main()
