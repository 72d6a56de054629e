# SPDX-License-Identifier: Apache-2.0
"""iostrata lab: scenarios on virtual machines, recorded and checked."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer

from iostrata import lab as laboratory
from iostrata.cli import lab_json, options
from iostrata.cli.output import put
from iostrata.cli.present import STDOUT, Wishes
from iostrata.cli.story import Story
from iostrata.errors import LabError, UsageError
from iostrata.record import MISSING
from iostrata.units import duration

EXEC_LIMIT_S: Final = 600.0
# Of the longest name of a scenario, and a space.
NAME_COLUMNS: Final = 22


class Action(StrEnum):
    LIST = "list"
    RUN = "run"
    UP = "up"
    EXEC = "exec"
    DOWN = "down"


def _scenarios(context: typer.Context, incomplete: str) -> list[str]:
    """For the shell's completion: names of scenarios, where one is expected."""
    if context.params.get("action") not in (Action.RUN, Action.UP) or context.params.get("words"):
        return []
    return [name for name in laboratory.scenarios() if name.startswith(incomplete)]


def lab(
    action: Annotated[Action, typer.Argument(help="What to do.", show_default=False)],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME] [-- COMMAND]",
            help="A scenario, a machine (exec), or labs (down).",
            autocompletion=_scenarios,
        ),
    ] = None,
    kernel: Annotated[
        str,
        typer.Option(
            "--kernel",
            metavar="SERIES",
            show_default=False,
            help=f"Of every machine, instead of the scenario's: {', '.join(laboratory.SUITES)}.",
        ),
    ] = "",
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--round",
            metavar="ROUND",
            help="Run this one of the scenario's rounds, and what it is compared with; repeatable.",
        ),
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option(
            "--pairs",
            metavar="N",
            min=1,
            show_default=False,
            help="Each injection so many times, each beside a round without it: their medians.",
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the machines standing.")] = False,
    json: options.JsonOnly = "",
    quiet: options.Quiet = False,
) -> int:
    """Bring a scenario's machines up, record, check, tear down.

    A scenario declares virtual machines, a storage stack on them, workloads,
    injected delays, and what must be found. The machines run Debian's kernels,
    fetched once, by QEMU, on the files of this machine (which they can't change).

    \b
      iostrata lab list                      the scenarios
      iostrata lab run local --kernel 5.10   all of it; status 8: a check failed
      iostrata lab up local                  the machines with their stack
      iostrata lab exec local -- uname -a    a command on a machine that stands
      iostrata lab exec local.1/local -- id  if several of that name stand
      iostrata lab down                      end the one that was left standing
      iostrata lab down local.1 nfs.2        or these of several
      iostrata lab run kvm-nfs --round vcpu  one of its rounds
      iostrata lab run nfs --pairs 3         injections as medians of pairs
    """
    story, names = Story(quiet, alone=True), words or []
    if kernel:
        laboratory.check_series(kernel)
    match action:
        case Action.LIST:
            _no(names, action)
            return _list()
        case Action.RUN:
            wishes = Wishes(json=json)
            scenario, name = _scenario(names, action, kernel)
            scenario = laboratory.with_pairs(scenario, pairs) if pairs else scenario
            with story:
                result = laboratory.run(scenario, name, story, keep, only or ())
            return _show(result, wishes)
        case Action.UP:
            laboratory.up(*_scenario(names, action, kernel), story)
            return 0
        case Action.EXEC:
            return _execute(names)
        case Action.DOWN:
            laboratory.take_down(story, names)
            return 0


def _no(names: list[str], action: Action) -> None:
    if names:
        raise UsageError(f"iostrata lab {action} takes no name", f"iostrata lab {action}")


def _scenario(names: list[str], action: Action, kernel: str) -> tuple[laboratory.Scenario, str]:
    if len(names) != 1:
        raise UsageError(
            f"iostrata lab {action} takes the name of one scenario", "iostrata lab list shows them"
        )
    scenario, name = laboratory.find_scenario(names[0])
    return (laboratory.with_kernel(scenario, kernel) if kernel else scenario), name


def _list() -> int:
    for name, scenario in laboratory.scenarios().items():
        print(f"{name:<{NAME_COLUMNS}}{scenario.description}")
    return 0


def _execute(words: list[str]) -> int:
    if len(words) < 2:
        raise UsageError(
            "iostrata lab exec takes a machine and a command", "iostrata lab exec local -- uname -a"
        )
    status, output = laboratory.execute(laboratory.find_machine(words[0]), words[1:], EXEC_LIMIT_S)
    sys.stdout.write(output)
    return status


def _show(result: laboratory.Result, wishes: Wishes) -> int:
    text = lab_json.render(result)
    if wishes.json == STDOUT:
        sys.stdout.write(text)
    else:
        put(wishes.json, text)
    if wishes.table:
        for line in lines(result):
            print(line)
    if result.broken:
        raise result.broken
    return 0 if result.passed else LabError.status


def lines(result: laboratory.Result) -> Iterator[str]:
    """The machines and rounds, each with its checks."""
    for machine in result.machines:
        tried = [probe for probe in machine.probes if probe.result != "unused"]
        works = sum(probe.works for probe in tried)
        yield f"machine {machine.name}: kernel {machine.release}, up in {machine.boot_s:.1f} s"
        yield f"  {works} of {len(tried)} programs of the recorder load and attach"
        yield from (
            f"  without {probe.program}: {probe.result}, {probe.text}"
            for probe in tried
            if not probe.works and probe.result not in MISSING
        )
        yield from _checks(machine.checks)
    for each in result.rounds:
        overall = each.summary.overall
        yield f"{each.name}: {overall.count} writes, mean {duration(overall.total.mean_ns)}"
        yield from _checks(each.checks)
    yield f"recordings: iostrata replay {result.recordings}/NAME"


def _checks(checks: Sequence[laboratory.Check]) -> Iterator[str]:
    for check in checks:
        verdict = "ok    " if check.passed else "FAILED"
        yield f"  {verdict} {check.name:<16} {check.found} (wanted {check.wanted})"
