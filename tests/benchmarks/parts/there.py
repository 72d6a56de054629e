# SPDX-License-Identifier: Apache-2.0
"""Recorders on a machine of the lab, beside one another; what its kernel says of their programs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iostrata.lab.machine import RunningMachine
from iostrata.record.recorder import find_recorder
from tests.benchmarks.parts.floor import EVENTS, built, sections
from tests.benchmarks.parts.spent import Spent, of_programs

PLACE = "/run/beside"
LIMIT_S = 300
# What is attached is loaded first, on an emulated CPU.
BEGIN = """cd {place}; rm -rf {which}.recording
setsid ./{which} -o {which}.recording {options} --status-fd 3 \
    3>{which}.status >{which}.log 2>&1 </dev/null &
pid=$!; echo $pid >{which}.pid
until grep -q ^ready {which}.status; do
kill -0 $pid || {{ cat {which}.log; exit 1; }}; sleep 0.2
done
cat /proc/$pid/fdinfo/* | grep -e ^prog_id -e ^link_id"""
END = """cd {place}; pid=$(cat {which}.pid); kill -INT $pid
while kill -0 $pid 2>/dev/null; do sleep 0.2; done"""
# Its CPU time, and what it has written: behind the programs, which its own end would add to.
LOOK = """cd {place}; /usr/sbin/bpftool --json prog show
for which in {all}; do
echo $(du -cb $which.recording/cpu_* 2>/dev/null | tail -n 1 | cut -f 1) \
    $(cat /proc/$(cat $which.pid)/task/*/schedstat)
done"""


@dataclass(frozen=True)
class Look:
    """At one recorder: of each program ns and hits until now; its CPU time; what it has written."""

    programs: dict[str, tuple[int, int]]
    recorder_ns: int
    bytes: int

    def spent(self, before: Look, writes: int, aside: Collection[str] = ()) -> Spent:
        """``aside``: programs that are left out, as what hits them is no write."""
        took = of_programs(before.programs, self.programs)
        programs = {name: one for name, one in took.items() if name not in aside}
        bpf_ns = sum(ns for ns, _ in programs.values())
        recorder_ns = self.recorder_ns - before.recorder_ns
        written = self.bytes - before.bytes
        return Spent(programs, bpf_ns / writes, recorder_ns / writes, written / writes)


def looks(said: str, ids: Mapping[int, set[int]]) -> list[Look]:
    """What LOOK says; ``ids``: of the programs of each recorder."""
    shown, *own = said.splitlines()
    programs = {program["id"]: program for program in json.loads(shown)}
    found = []
    for which, line in enumerate(own):
        held = (programs[number] for number in sorted(ids[which] & {*programs}))
        times = {
            one["name"]: (one.get("run_time_ns", 0), one.get("run_cnt", 0))
            for one in held
            if "name" in one
        }
        written, *of_threads = map(int, line.split())
        found.append(Look(times, sum(of_threads[::3]), written))
    return found


class Beside:
    """``recorders``: programs of this machine, which that one gets; ``options``: for all."""

    def __init__(self, machine: RunningMachine, recorders: Sequence[Path], options: str) -> None:
        self.machine = machine
        self._options = options
        self._ids: dict[int, set[int]] = {}
        self._all = [str(which) for which, _ in enumerate(recorders)]
        machine.command(f"mkdir -p {PLACE}")
        for which, path in zip(self._all, recorders, strict=True):
            self.send(path, which)

    def send(self, path: Path, name: str) -> None:
        self.machine.send(path, f"{PLACE}/{name}")

    def floor(self, which: int, place: Path) -> None:
        """Programs that do nothing at the points of this recorder, which is one of them, are one
        more; made in ``place``."""
        said = self._begin(which)
        links = {number for kind, number in said if kind == "link_id:"}
        programs = json.loads(self.machine.command("/usr/sbin/bpftool --json link show", LIMIT_S))
        held = {one["prog_id"] for one in programs if one["id"] in links}
        shown = json.loads(self.machine.command("/usr/sbin/bpftool --json prog show", LIMIT_S))
        attached = {one["name"]: one["type"] for one in shown if one["id"] in held}
        self._end(which)
        probes = subprocess.run(
            [str(find_recorder()), "--probes"], check=True, capture_output=True, text=True
        ).stdout
        events = self.machine.command(f"basename -a {EVENTS}/*/*/").split()
        made = built(place, sections(probes, attached, events))
        floor = str(len(self._all))
        self.send(made, floor)
        self.send(made.with_suffix(".o"), f"{floor}.o")
        self._all.append(floor)

    def begin(self, order: Sequence[int]) -> None:
        for which in order:
            self._ids[which] = {number for kind, number in self._begin(which) if kind == "prog_id:"}

    def look(self) -> list[Look]:
        script = LOOK.format(place=PLACE, all=" ".join(self._all))
        return looks(self.machine.command(script, LIMIT_S), self._ids)

    def end(self) -> None:
        for which in self._ids:
            self._end(which)
        self._ids.clear()

    def _begin(self, which: int) -> list[tuple[str, int]]:
        options = f"--stats {self._options}"
        script = BEGIN.format(place=PLACE, which=which, options=options)
        lines = self.machine.command(script, LIMIT_S).splitlines()
        return [(kind, int(number)) for kind, number in map(str.split, lines)]

    def _end(self, which: int) -> None:
        self.machine.command(END.format(place=PLACE, which=which), LIMIT_S)
