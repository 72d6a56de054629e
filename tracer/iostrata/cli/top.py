# SPDX-License-Identifier: Apache-2.0
"""iostrata top: where the writes of the last seconds spent their time, live."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

import iostrata
from iostrata.cli import options
from iostrata.cli.capture import MACHINE, checked, target
from iostrata.cli.passing import passing
from iostrata.cli.present import has_blocks
from iostrata.cli.screen import Screen, check_terminal, full_screen
from iostrata.cli.story import Story
from iostrata.errors import UsageError
from iostrata.live import MOST_INTERVALS, History, Interval, Latest, Replayed
from iostrata.record import Request, Target, beside
from iostrata.report import ORDERS, View, live

REFRESH_S: Final = 1.0
CHOICES: Final = {"m": "method", "d": "device", "p": "process"}

Next = Callable[[], Interval | None]


def top(
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay", metavar="DIR", show_default=False, help="Show a recording at its own pace."
        ),
    ] = None,
    speed: Annotated[
        float,
        typer.Option("--speed", metavar="N", min=0.001, max=1e6, help="With --replay: N times it."),
    ] = 1,
    seconds: Annotated[
        int, typer.Option("--seconds", metavar="N", min=1, max=60, help="The table's time.")
    ] = 10,
    pid: options.Pid = None,
    comm: options.Comm = None,
    cgroup: options.Cgroup = None,
    device: options.Device = None,
    everything: options.Everything = False,
    no_names: options.NoNames = False,
    detail: options.Detail = False,
    buffer: options.Buffer = 0,
) -> int:
    """Show live where writes spend their time, layer by layer.

    The table is of the last seconds, and beside each row a strip shows how it
    came to that: a character a second, the latest at the right. Without a
    filter, every process is recorded. Keys:

    \b
      s        sort: order of the stack, share, p99
      f        freeze, and go on
      m, d, p  only one method, device, process: the next one; a: all again
      q        quit

    What is recorded goes to a temporary directory, and what is some seconds old
    is given back to the disk. It goes at the end; what a killed one left goes
    when top is started again. Of very many writes only some are analysed each
    second, so that looking costs little; then that is said.

    \b
      sudo iostrata top
      sudo iostrata top --comm postgres
      iostrata top --replay /var/tmp/db --speed 2
    """
    wanted = target(pid, comm, cgroup, device, everything)
    if replay and wanted:
        raise UsageError("--replay shows what was recorded: it takes no filter", "leave one out")
    check_terminal()
    history = History(seconds)
    if replay:
        played = Replayed(iostrata.open(replay).analyse(), speed)
        title = f"iostrata top: {replay.resolve().name}, at {speed:g} times its pace"
        return _watch(partial(played.interval, REFRESH_S), history, title, lambda: played.over)
    wanted = wanted or Target(everything=True)
    request = Request(Path(), target=wanted, names=not no_names, detail=detail, buffer_kib=buffer)
    request = checked(request)
    with _recorded(request) as interval:
        return _watch(interval, history, f"iostrata top: {_described(wanted)}", lambda: False)


@contextmanager
def _recorded(request: Request) -> Iterator[Next]:
    """What a recorder at work recorded last."""
    with ExitStack() as stack:
        directory = stack.enter_context(passing("iostrata-top-"))
        recorder = stack.enter_context(
            beside(replace(request, directory=directory / MACHINE.directory))
        )
        Story().say("starting the recorder")
        recorder.wait()
        latest = Latest(directory, MACHINE)
        stack.callback(latest.close)

        def interval() -> Interval | None:
            recorder.check()
            return latest.interval()

        yield interval


@dataclass
class _Wishes:
    """What the keys have asked for so far."""

    order: str = ORDERS[0]
    frozen: bool = False
    ended: bool = False
    chosen: dict[str, str] = field(default_factory=dict)

    def take(self, key: str, history: History) -> None:
        if key == "q":
            self.ended = True
        elif key == "s":
            self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        elif key in ("f", " "):
            self.frozen = not self.frozen
        elif key == "a":
            self.chosen.clear()
        elif key in CHOICES:
            self._next(CHOICES[key], history.names(CHOICES[key]))

    def _next(self, column: str, names: tuple[str, ...]) -> None:
        """The name after the chosen one; after the last, all again."""
        now = self.chosen.pop(column, None)
        place = names.index(now) + 1 if now in names else 0
        if place < len(names):
            self.chosen[column] = names[place]


def _watch(interval: Next, history: History, title: str, over: Callable[[], bool]) -> int:
    """Shows each interval as it comes, until a key or a signal ends it; the exit status."""
    wishes, blocks = _Wishes(), has_blocks()
    waiting: deque[Interval] = deque(maxlen=MOST_INTERVALS)

    def view(screen: Screen) -> View:
        width, height = screen.size
        state = "frozen" if wishes.frozen else "the end" if over() else ""
        return View(title, width, height, blocks, wishes.order, state)

    with full_screen() as screen:
        summary, due = history.summary(wishes.chosen), time.monotonic()
        while not wishes.ended:
            if time.monotonic() >= due:
                due = max(due + REFRESH_S, time.monotonic())
                if (found := interval()) is not None:
                    waiting.append(found)
                if not wishes.frozen:
                    while waiting:
                        history.add(waiting.popleft())
                    summary = history.summary(wishes.chosen)
            screen.show(live.render(summary, view(screen)))
            woken = screen.wait(due)
            if woken.signal:
                return 128 + woken.signal
            for key in woken.keys:
                wishes.take(key, history)
            if woken.keys:
                summary = history.summary(wishes.chosen)
    return 0


def _described(wanted: Target) -> str:
    if wanted.everything:
        return "every process"
    filters = (("pid", wanted.pids), ("comm", wanted.comms), ("cgroup", wanted.cgroups),
               ("device", wanted.devices))  # fmt: skip
    return ", ".join(f"{name} {value}" for name, values in filters for value in values)
