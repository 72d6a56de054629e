# SPDX-License-Identifier: Apache-2.0
"""Report stage: an Estimate as text, one row a guess, and what each rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from iostrata import units
from iostrata.model import Estimate, Guess
from iostrata.report.quality import labelled, wrapped
from iostrata.report.quantity import Unit, cut, share

WIDTH: Final = 80
NAME_WIDTH: Final = 22
FIGURE_WIDTH: Final = 9
UNIT: Final = Unit("ms", 1e6, 3)
UNKNOWN: Final = "?"
COLUMNS: Final = ("guessed", "measured", "error", "relative")

# By the guess's basis, in the table.
FROM: Final = {
    "given": "given",
    "echo": "ping",
    "tcp least round trip": "TCP's least trip",
    "tcp round trip": "TCP's smoothed trip",
    "serial requests": "1/IOPS",
    "the rest": "what is left",
    "their sum": "their sum",
    "ignored": "taken for nothing",
    "others unknown": "needs the others",
}
# Below it, of what was read from the recording: by whom or of which, and how many samples.
RESTS_ON: Final = {
    "echo": "8 KB to the server and back, sent by {0} while it was recorded, median of {1}",
    "tcp least round trip": "the quickest acknowledgement of some segment, as {0}'s kernel knew of "
    "{1}: no ping of 8 KB, which takes longer; --ping MS for your own",
    "tcp round trip": "until segments were acknowledged, as {0}'s kernel smoothed it, median of "
    "{1}: no ping, as acknowledgements may wait for replies; --ping MS for your own",
    "serial requests": "mean of {1} that {0} had alone; --iops N for your own",
}
COUNTED: Final = {
    "echo": "answer",
    "tcp least round trip": "connection",
    "tcp round trip": "sample",
    "serial requests": "write",
}
WHY_NOT: Final = {
    "no connection seen": "no machine told of a connection: give --ping MS (0: there is none)",
    "tcp waits for replies": "what {0}'s TCP knows is longer than the quickest call with its "
    "reply, or varies too much: it waits for replies and is no ping; give --ping MS",
    "no device recorded": "no recorded machine on the way has it: give --iops N",
    "no request seen": "{0} was not seen to write to a disk: give --iops N",
    "never alone": "{0} always had several requests at once: give --iops N",
}


def plain(estimate: Estimate) -> str:
    """As a pipe or a file gets it: 80 columns, no colour."""
    return render(estimate).plain


def render(estimate: Estimate, width: int = WIDTH) -> Text:
    title = (
        f"{estimate.writes} writes of {estimate.machine}, {units.duration(estimate.total_ns)} "
        "each: the arithmetic without tracing beside what was measured"
    )
    lines = [*(Text(line, style="bold") for line in wrapped(title, width)), Text()]
    lines += _table(estimate, width)
    told = [Text(line, style=style) for label, text, style in notes(estimate)
            for line in labelled(label, [text], width)]  # fmt: skip
    lines += [Text(), *told] if told else []
    for line in lines:
        line.rstrip()
    return Text("\n").join([*lines, Text()])


def _table(estimate: Estimate, width: int) -> Iterator[Text]:
    room = width - NAME_WIDTH - FIGURE_WIDTH * len(COLUMNS) - 2
    # The last columns can be worked out from the first two, which are always there.
    count = max((width - NAME_WIDTH) // FIGURE_WIDTH, 2)
    head = "".join(f"{column:>{FIGURE_WIDTH}}" for column in COLUMNS[:count])
    yield Text(f"{'ms a write':<{NAME_WIDTH}}{head}  {'guessed from'[: max(room, 0)]}", style="dim")
    for guess in estimate.guesses:
        style = "dim" if guess.merged_into or guess.basis == "ignored" else ""
        text = Text(f"{cut(name(guess), NAME_WIDTH):<{NAME_WIDTH}}", style=style)
        text.append("".join(f"{cell:>{FIGURE_WIDTH}}" for cell in cells(guess)[:count]))
        yield text.append(f"  {FROM.get(guess.basis, '')[: max(room, 0)]}")
    known = all(guess.guess_ns is not None for guess in estimate.guesses)
    total = _time(estimate.total_ns)
    guessed = total if known else UNKNOWN
    line = f"{'total':<{NAME_WIDTH}}{guessed:>{FIGURE_WIDTH}}{total:>{FIGURE_WIDTH}}"
    yield Text(line, style="bold")


def name(guess: Guess) -> str:
    """Indented where it is only a part of what was measured; of several segments, the rest."""
    if len(guess.segments) > 1:
        return "the rest"
    return f"  {guess.segments[0]}" if guess.merged_into else guess.segments[0]


def cells(guess: Guess) -> tuple[str, str, str, str]:
    """Guessed, measured, error in ms and in percent of what was measured."""
    error = guess.error_share
    return (
        _time(guess.guess_ns),
        _time(guess.measured_ns),
        _signed(_time(guess.error_ns)) if guess.error_ns is not None else "",
        _signed(share(error)) if error is not None else "",
    )


def notes(estimate: Estimate) -> Iterator[tuple[str, str, str]]:
    """What each guess rests on, or why it cannot be told: label, text, style."""
    for guess in estimate.guesses:
        label = name(guess).strip()
        if len(guess.segments) > 1:
            yield label, ", ".join(guess.segments), ""
        if text := RESTS_ON.get(guess.basis):
            yield label, f"{FROM[guess.basis]}: {text.format(guess.of, _counted(guess))}", ""
        if text := WHY_NOT.get(guess.basis):
            yield label, f"not known: {text.format(guess.of)}", "yellow"


def _counted(guess: Guess) -> str:
    return f"{guess.samples} {COUNTED[guess.basis]}{'s' if guess.samples != 1 else ''}"


def _time(ns: float | None) -> str:
    return UNKNOWN if ns is None else UNIT.text(ns, FIGURE_WIDTH - 1)


def _signed(text: str) -> str:
    return text if text.startswith("-") or not text.strip("0.%") else f"+{text}"
