# SPDX-License-Identifier: Apache-2.0
"""Report stage: what a Summary's numbers rest on, printed under every table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from iostrata import units
from iostrata.cgroups import NOT_KNOWN
from iostrata.model import (
    Cost,
    Crossing,
    Op,
    Quality,
    Served,
    Summary,
    Unseen,
    WaitSite,
)
from iostrata.report import who

LABEL_WIDTH: Final = 12
SITES: Final = 5
LEAST_SITE: Final = 0.02
"""Of the time of all sites."""
OF_CGROUPS: Final = frozenset({"cgroup", "container"})


def lines(summary: Summary, width: int) -> Iterator[Text]:
    for label, parts, style in statements(summary):
        yield from (Text(line, style=style) for line in labelled(label, parts, width))


def statements(summary: Summary) -> Iterator[tuple[str, Sequence[str], str]]:
    quality, count, word = summary.quality, summary.overall.count, summary.op.word
    served = [_served(one) for one in summary.served]
    if quality.selection:
        if served:
            yield "served from", served, ""
        words = ", ".join(quality.selection.by)
        of = quality.selection.of
        yield "selected", [f"{count} of {of} {word}s: {words}; what follows is of all"], "yellow"
        count = of
    left_out = sum(summary.left_out.values())
    yield "analysed", [f"{count} of {count + left_out} {word}s"], ""
    if left_out:
        style = "bold red" if quality.too_many_unseen else "yellow"
        yield "left out", counted(summary.left_out), style
    if quality.crossings:
        yield "followed", [f"{count - quality.unfollowed} of {count} {word}s, all the way down"], ""
    if served and not quality.selection:
        yield "served from", served, ""
    if quality.lost:
        yield "lost", [f"{sum(quality.lost.values())} events", *counted(quality.lost)], "bold red"
    else:
        yield "lost", ["nothing but what is damaged" if quality.damage else "nothing"], ""
    for defect in quality.damage:
        yield "damage", [defect], "bold red"
    if quality.unsure_syncs:
        yield "sizes", [_unsure(quality.unsure_syncs)], "yellow"
    if quality.partial_syncs:
        yield "sizes", [_partial(quality.partial_syncs)], "yellow"
    for left in left_over(quality, word):
        yield "left over", [left], "bold red" if quality.doubtful else "yellow"
    for gap in quality.not_observed:
        merged = f"; its time is in {gap.merged_into}" if gap.merged_into else ""
        yield "not seen", [f"{gap.where}: {gap.reason}{merged}"], "yellow"
    for crossing in quality.crossings:
        yield "hop", list(_crossing(crossing)), ""
        if crossing.contradiction:
            yield "clocks", [crossing.contradiction], "bold red"
        if crossing.readdressed:
            yield "addresses", [_readdressed(crossing)], "yellow"
        for disk in crossing.bypassed:
            yield "bypassed", [_bypassed(crossing, disk)], "yellow"
    for machine, hidden_ns in quality.hidden.items():
        yield "hidden", [f"{machine}: {units.duration(hidden_ns)} a {word}, behind others"], ""
    for waker in quality.wakers:
        where = f"{waker.who.machine}: " if quality.crossings else ""
        took = f"{units.duration(waker.time_ns)} a {word}"
        what = f"held back by {waker.device} until then" if waker.device else "unattributed"
        what += "" if waker.recorded else "; not recorded itself (--all)"
        yield "woken by", [f"{where}{who.named(waker.who)}: {took}, {what}"], ""
    for unseen in quality.unseen:
        yield "not seen", [_unseen(unseen, quality, word)], "yellow"
    if ungrouped := _ungrouped(summary):
        yield "not seen", [ungrouped], "yellow"
    for site in _largest(quality.sites):
        where = f"{site.machine}: " if quality.crossings else ""
        took = units.duration(site.time_ns)
        yield "asleep in", [f"{where}{site.site}: {took} a {word}, unattributed"], ""
    for machine in quality.apart:
        yield "apart", [machine], "yellow"
    for disk in quality.virtual:
        yield "virtual", [disk], "yellow"
    for connection in quality.connections:
        yield "connection", [connection], "yellow"
    if quality.ties:
        yield "requests", [f"{n} tied by {how}" for how, n in sorted(quality.ties.items())], ""
    if quality.plain_writes:
        yield "plain", [f"{quality.plain_writes} writes without sync, not analysed"], ""
    if quality.cost:
        yield "own cost", list(_cost(quality.cost, summary, count + left_out)), ""


def _served(one: Served) -> str:
    """So many were, and how long one took there."""
    return f"{one.name} {one.share:.1%} ({one.count}, {units.duration(one.mean_ns)} each)"


def _largest(sites: Sequence[WaitSite]) -> Iterator[WaitSite]:
    """Those that explain most of the unattributed time."""
    least = LEAST_SITE * sum(site.time_ns for site in sites)
    return (site for site in sites[:SITES] if site.time_ns >= least)


def _unsure(count: int) -> str:
    syncs, them = ("one sync", "it") if count == 1 else (f"{count} syncs", "them")
    return f"{syncs} may be of more writes, or fewer, than was seen: calls before {them} were lost"


def _partial(count: int) -> str:
    syncs, them = ("one sync", "it") if count == 1 else (f"{count} syncs", "them")
    return (
        f"{syncs} may be of more writes than was seen: not all that was written before {them} was "
        "recorded"
    )


def left_over(quality: Quality, word: str) -> Iterator[str]:
    """What went on beside writes that slept for nothing that is known to be theirs."""
    for left in quality.left_over:
        where = f"{left.machine}: " if quality.crossings else ""
        kind = left.kind if left.count == 1 else units.plural(left.kind)
        took = units.duration(left.time_ns)
        yield f"{where}{left.count} {kind}, {took}, while {word}s slept on {left.place}"


def _unseen(unseen: Unseen, quality: Quality, word: str) -> str:
    where = f"{unseen.machine}: " if quality.crossings else ""
    sleeps = "one sleep" if unseen.count == 1 else f"{unseen.count} sleeps"
    return f"{where}who ended {sleeps}: {units.duration(unseen.time_ns)} a {word}, unattributed"


def _ungrouped(summary: Summary) -> str:
    """Where groups are asked for, also if there is no other one to be listed; empty: none are."""
    if summary.grouped_by not in OF_CGROUPS:
        return ""
    groups = [group.count for group in summary.groups if group.name == NOT_KNOWN]
    if not groups:
        return ""
    of = f"{sum(groups)} of {summary.overall.count} {summary.op.word}s"
    return f"the cgroup of {of} ({NOT_KNOWN}): not told, or gone before it was found"


def _crossing(crossing: Crossing) -> Iterator[str]:
    """How much of what was sent down was found there, and how well the clocks are known."""
    yield (
        f"{crossing.upper} to {crossing.lower} ({crossing.hop}): "
        f"{crossing.followed} of {crossing.asked} followed by {crossing.by}"
    )
    if crossing.ambiguous:
        yield f"{crossing.ambiguous} left untied, as more than one may be theirs"
    bound = units.duration(crossing.bound_ns)
    yield f"each way ±{bound} (clocks by {crossing.clock}, drift {crossing.drift_ppm:.1f} ppm)"


def _readdressed(crossing: Crossing) -> str:
    return (
        f"{crossing.upper} and {crossing.lower} know different ones of what carried "
        f"{crossing.readdressed} of these: a router changes them, or they are a copy's of "
        f"{crossing.upper}"
    )


def _bypassed(crossing: Crossing, disk: str) -> str:
    return (
        f"{crossing.upper}: nothing that {crossing.lower} saw is known to be what {disk} was "
        "asked; it is not followed"
    )


def _cost(cost: Cost, summary: Summary, count: int) -> Iterator[str]:
    """``count``: of what the cost is told a piece; what was recorded besides is in it, too."""
    bpf_ns, word = cost.bpf_ns_a_write(count), summary.op.word
    if cost.unmeasured:
        yield f"{cost.unmeasured}'s not measured"
    elif bpf_ns is None:
        yield "BPF time not measured (--stats)"
    else:
        which = f"a {word}"
        if summary.op is not Op.SYNC:
            which += " (what writes took is in it)"
        elif summary.quality.plain_writes:
            which = "a synchronous write (what plain ones took is in it)"
        yield f"{units.duration(bpf_ns)} of BPF {which}"
    if cost.recorder_share is not None:
        yield f"recorder {cost.recorder_share:.1%} of a core"
    yield f"{cost.events_per_s:.0f} events/s"


def unseen(share: float, word: str) -> str:
    return f"{share:.0%} of the {word}s that ended, in one run: nobody saw them end"


def counted(counts: Mapping[str, int]) -> list[str]:
    """The most first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"{name} ({count})" for name, count in ordered]


def labelled(label: str, parts: Sequence[str], width: int) -> list[str]:
    """``label`` and the parts beside it, as many lines as it takes."""
    return wrapped(f"{label:<{LABEL_WIDTH}}{', '.join(parts)}", width, LABEL_WIDTH)


def wrapped(text: str, width: int, indent: int = 2) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, 2 * LABEL_WIDTH),
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
    )
