# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Summary in, one to three sentences out that its rows prove.

What has less than half of the time, or of what the slow writes take longer, is
never called the reason alone; what no event explains is said to be that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from iostrata import units
from iostrata.layers import ROWS
from iostrata.model import Cause, Quality, Row, Summary, Table
from iostrata.report import who

DEVICE: Final = "device"
UNFOLLOWED: Final = "unfollowed"
UNTIED: Final = frozenset(row.name for row in ROWS if row.untied)
HALF: Final = 0.5
# So much slower than the median is p99 where the slow ones are worth a sentence.
TIMES: Final = 3
UNEXPLAINED: Final = 0.05
# What has no more is not named beside others.
LITTLE: Final = 0.1
ALL: Final = 0.995
MOST_NAMED: Final = 3


def sentences(summary: Summary) -> list[str]:
    """In plain words, with their evidence; none where there is no time."""
    table = summary.overall
    if not table.causes or table.total.mean_ns <= 0:
        return []
    mostly = table.residual.share >= HALF
    first = _unexplained(table, summary.quality) if mostly else _mean(table, summary)
    found = [first, *_tail(table), *_over_time(summary)]
    if not mostly and table.residual.share >= UNEXPLAINED:
        found.append(f"{_no_event(table, summary.quality)}.")
    return [*found, *_doubts(summary)]


def _unexplained(table: Table, quality: Quality) -> str:
    """Where most of the time is in no row: that first, what tells more, and where the rest is."""
    text = _no_event(table, quality)
    if quality.sites:
        text += " (what it slept in is below the table)"
    elif not quality.stacks and quality.asleep_share >= HALF:
        text += " (--why tells what it slept in)"
    some = [(cause.share, cause) for cause in table.causes if cause.share > LITTLE]
    return f"{text}; {_listed(some)}." if some else f"{text}."


def _no_event(table: Table, quality: Quality) -> str:
    text = f"{_percent(table.residual.share)} is unattributed: no event explains it"
    enders = [waker for waker in quality.wakers if not waker.device]
    if quality.selection or not enders or enders[0].time_ns < HALF * table.residual.mean_ns:
        return text
    return f"{text}, but {who.named(enders[0].who)} ended most of it"


def _doubts(summary: Summary) -> Iterator[str]:
    quality, word = summary.quality, summary.op.word
    if quality.too_many_unseen:
        yield (
            f"{_percent(quality.unseen_share)} of the {word}s that ended are in no number: nobody "
            "saw them end (see what is left out below the table)."
        )
    if quality.lost or quality.damage:
        yield "Events are missing, so this may be wrong: see the lines below the table."
    elif quality.too_much_left_over:
        yield (
            f"Much went on meanwhile that no {word} could be tied to, so this may be "
            "wrong: see what is left over below the table."
        )


def _is_seen(summary: Summary) -> bool:
    """Whether what has no time in the device had none there: what was not followed, may have."""
    return summary.quality.unfollowed <= LITTLE * summary.overall.count


def _not_followed(quality: Quality) -> str:
    """Below which disks, as that a loop device is, it is not known what had the time."""
    gaps = (gap.where for gap in quality.not_observed if gap.merged_into == DEVICE)
    below = [where for where in gaps if where.startswith("below ")]
    return f"; what is {', '.join(below[:MOST_NAMED])} was not seen" if below else ""


def _mean(table: Table, summary: Summary) -> str:
    first = table.causes[0]
    if first.share < HALF:
        parts = _listed([(cause.share, cause) for cause in table.causes])
        return f"No one place has half of the time: {parts}."
    text = f"{_percent(first.share)} of the time is {_where(first)}"
    if not first.declared and first.most.figures.share < first.share:
        text += f", above all {first.most.layer.row} ({_percent(first.most.figures.share)})"
    if first.behind:
        text += f", mostly behind {who.named(first.behind.who)}"
    if first.device:
        text += _not_followed(summary.quality)
    elif _is_seen(summary) and first.most.layer.row != UNFOLLOWED:
        device = [one.figures.share for one in table.segments if one.segment == DEVICE]
        text += f": not the device ({_percent(sum(device))})" if device else ""
        if first.most.layer.row in UNTIED and (held := _held_back(first.most, summary.quality)):
            text += f"; {held}"
        elif device and first.most.layer.row in UNTIED:
            text += ", unless it read or copied something there for itself that is not followed"
    return f"{text}."


def _held_back(row: Row, quality: Quality) -> str:
    """By which device most of a row was held back, and until when."""
    held = [waker for waker in quality.wakers if waker.device]
    if quality.selection or not held or held[0].time_ns < HALF * row.figures.mean_ns:
        return ""
    return f"{held[0].device} held most of that back until {who.named(held[0].who)} let it go"


def _tail(table: Table) -> Iterator[str]:
    total, tail = table.total, table.tail
    if not tail or total.p50_ns <= 0 or total.p99_ns < TIMES * total.p50_ns:
        return
    text = f"p99 is {total.p99_ns / total.p50_ns:.0f} x p50"
    slow = "the slow ones take" if tail.slow > 1 else "the slowest one takes"
    shares = [(cause.tail_share or 0.0, cause) for cause in table.causes]
    share, leader = max(shares, key=lambda one: one[0])
    if tail.residual.share > max(share, HALF):
        yield f"{text}: {_percent(tail.residual.share)} of what {slow} longer is unattributed."
    elif share >= HALF:
        yield f"{text}: {_percent(share)} of what {slow} longer is {_where(leader)}."
    else:
        yield f"{text}: of what {slow} longer, {_listed(shares)}."


def _over_time(summary: Summary) -> Iterator[str]:
    if since := summary.onset:
        where = _changed(since.row, since.share)
        yield f"From {_when(since.at_ns)} on {summary.op.word}s {_longer(since.times)}{where}."
    if every := summary.period:
        where = _changed(every.row, every.share)
        seconds = every.period_ns / 1e9
        yield (
            f"Every {seconds:.3g} s ({every.count} times) some take {every.times:.0f} x as long"
            f"{where}."
        )


def _when(passed_ns: int) -> str:
    """To a tenth of a second, but never 0."""
    seconds = f"{passed_ns / 1e9:.1f}"
    return units.duration(passed_ns) if seconds == "0.0" else f"{seconds} s"


def _longer(times: float) -> str:
    return f"take {times:.1f} x as long" if times >= 1 else f"are {1 / times:.1f} x as fast"


def _changed(row: str, share: float) -> str:
    return f": {_percent(share)} of the difference is {row}" if row and share > LITTLE else ""


def _listed(shares: Sequence[tuple[float, Cause]]) -> str:
    """The largest few that are more than a little; at least one."""
    ordered = sorted(shares, key=lambda one: -one[0])
    named = [one for one in ordered if one[0] > LITTLE][:MOST_NAMED] or ordered[:1]
    return ", ".join(f"{_percent(share)} {_where(cause)}" for share, cause in named)


def _where(cause: Cause) -> str:
    return cause.name if cause.declared else f"in the {cause.name}"


def _percent(share: float) -> str:
    # Where something else became less, the rest is more than all.
    return f"{share:.0%}" if share < ALL else "all"
