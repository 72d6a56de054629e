# SPDX-License-Identifier: Apache-2.0
"""What a hit costs this recorder and another commit's where a write passes by, as root.

    python -m tests.benchmarks.machines [COMMIT] [--scenario NAME ...] [--pairs N] [--bursts N]
                                        [--writes N]

As `recorders`, in machines of the lab: a client and a server of NFS, and the host of a guest. Both
record there at the same time, and beside them are programs that do nothing. They are attached anew
for each of two rounds, in turns; then the same bursts of writes are looked at. The processors are
emulated: a ratio says something, how long anything takes does not. Where no machine is nested their
clocks count what they execute, 2 ns each, and nobody else's work is in that. What no write hits is
left out.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import msgspec

from iostrata.lab.cache import new_lab_directory
from iostrata.lab.lab import Lab
from iostrata.lab.read import scenarios
from iostrata.lab.run import furnished
from iostrata.lab.scenario import Fio
from iostrata.lab.workload import command, preparation
from iostrata.record.recorder import find_recorder
from tests.benchmarks.parts.counting import counting
from tests.benchmarks.parts.recording import recorder_of
from tests.benchmarks.parts.spent import Spent, tell
from tests.benchmarks.parts.story import Story
from tests.benchmarks.parts.there import LIMIT_S, Beside

# By scenario, of each machine what it is there, and what is recorded.
WATCHED = {
    "nfs": {"host": ("client of NFS", "--comm fio"), "server": ("server of NFS", "--path")},
    "kvm-nfs": {"host": ("host of a guest, client of NFS", "--path")},
}
# Hit by the clock's ticks, of which a slow machine has many a write; and by files of the machine's
# own root, which it has by 9p.
ASIDE = ("pause_timer", "pause_hrtimer", "ninep_message")
ORDERS = ([2, 0, 1], [2, 1, 0])
ACCOUNT = "/run/account"


def writing(workload: Fio, writes: int) -> Fio:
    """So many writes of 8 KB to places that were written before, each with its fdatasync."""
    options = {"rw": "randwrite", "bs": "8k", "size": "1m", "overwrite": 1, "fdatasync": 1}
    options |= {"io_size": writes * 8192}
    return msgspec.structs.replace(workload, options=options)


def write(lab: Lab, workload: Fio) -> None:
    lab.machines[workload.machine].command(shlex.join(command(workload, ACCOUNT)), LIMIT_S)


def rounds_of(
    lab: Lab, watched: Mapping[str, Beside], workload: Fio, order: Sequence[int], bursts: int
) -> list[dict[str, list[Spent]]]:
    """Attached once: of each burst, what each recorder took on each machine."""
    writes = int(workload.options["io_size"]) // 8192
    with ExitStack() as attached:
        pool = attached.enter_context(ThreadPoolExecutor())
        for beside in watched.values():
            attached.callback(beside.end)
        list(pool.map(lambda beside: beside.begin(order), watched.values()))
        write(lab, workload)
        before = {name: beside.look() for name, beside in watched.items()}
        found = []
        for _ in range(bursts):
            write(lab, workload)
            after = {name: beside.look() for name, beside in watched.items()}
            found.append(
                {
                    name: [
                        one.spent(earlier, writes, ASIDE)
                        for one, earlier in zip(after[name], before[name], strict=True)
                    ]
                    for name in watched
                }
            )
            before = after
    return found


def measured(
    name: str, other: Path, pairs: int, bursts: int, writes: int
) -> dict[str, list[list[Spent]]]:
    """By machine of the scenario: rounds in turns of the orders."""
    scenario = scenarios()[name]
    found: dict[str, list[list[Spent]]] = {machine: [] for machine in WATCHED[name]}
    with ExitStack() as stack:
        if not any(machine.nested for machine in scenario.machines):
            stack.enter_context(counting())
        lab = stack.enter_context(furnished(scenario, new_lab_directory(name), Story(), keep=False))
        workload = writing(next(iter(scenario.rounds())), writes)
        prepared = shlex.join(preparation(workload, ACCOUNT))
        lab.machines[workload.machine].command(f"{prepared} && sync", LIMIT_S)
        watched = {
            machine: Beside(lab.machines[machine], [other, find_recorder()], options)
            for machine, (_, options) in WATCHED[name].items()
        }
        places = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in watched]
        pool = stack.enter_context(ThreadPoolExecutor())
        list(pool.map(lambda beside, place: beside.floor(1, place), watched.values(), places))
        for pair in range(pairs):
            Story().say(f"{name}: pair {pair + 1} of {pairs}")
            turns = [rounds_of(lab, watched, workload, order, bursts) for order in ORDERS]
            for both in zip(*turns, strict=True):
                for each in both:
                    for machine, spent in each.items():
                        found[machine].append(spent)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?")
    parser.add_argument("--scenario", choices=[*WATCHED], nargs="*", default=[*WATCHED])
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--bursts", type=int, default=3)
    parser.add_argument("--writes", type=int, default=100)
    arguments = parser.parse_args()
    with recorder_of(arguments.commit) as other:
        for name in arguments.scenario:
            found = measured(name, other, arguments.pairs, arguments.bursts, arguments.writes)
            for machine, rounds in found.items():
                what, _ = WATCHED[name][machine]
                tell(f"{what} ({name}, {machine})", rounds, arguments.commit, arguments.writes)


if __name__ == "__main__":
    main()
