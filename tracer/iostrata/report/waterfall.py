# SPDX-License-Identifier: Apache-2.0
"""Report stage: timelines of single writes, as a strip a layer and a line a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from rich.text import Text

from iostrata import units
from iostrata.model import Evidence, Lane, Layer, Quality, Step, Timeline
from iostrata.report import who
from iostrata.report.quality import labelled, left_over, wrapped
from iostrata.report.quantity import Unit, cut, share
from iostrata.report.sections import NAME_WIDTH, headed, name_width, sections

WIDTH: Final = 80
TIME_WIDTH: Final = 9
SHARE_WIDTH: Final = 7
NARROW: Final = 50
EVIDENCE_WIDTH: Final = 16
UNIT: Final = Unit("us", 1e3, 2)
HEIGHTS: Final = "▁▂▃▄▅▆▇█"
DENSITIES: Final = ".+#"
STEPS: Final = 24


def plain(timelines: Sequence[Timeline], quality: Quality) -> str:
    """As a pipe or a file gets it: 80 columns, no colour."""
    return render(timelines, quality).plain


def render(
    timelines: Sequence[Timeline],
    quality: Quality,
    width: int = WIDTH,
    blocks: bool = True,
    steps: int = STEPS,
) -> Text:
    """``blocks``: strips may use Unicode's block characters. ``steps``: the longest so many."""
    lines: list[Text] = []
    for timeline in timelines:
        lines += [*_head(timeline, width), Text(), *_strips(timeline, width, blocks), Text()]
        if steps:
            lines += [*_steps(timeline, width, steps), Text()]
    lines += _defects(quality, width, timelines[0].op.word)
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)


def _head(timeline: Timeline, width: int) -> Iterator[Text]:
    why = f", {timeline.why}" if timeline.why else ""
    which = f"{timeline.op.word} {timeline.number} of {timeline.of}{why}"
    title = f"{units.duration(timeline.latency_ns)}: {which}"
    yield from (Text(line, style="bold") for line in wrapped(title, width))
    names, where = timeline.names, _file(timeline)
    if timeline.offset_bytes >= 0:
        where += f", offset {units.size(timeline.offset_bytes)}"
    who = names["process"]
    if len({lane.layer.machine for lane in timeline.lanes if lane.layer}) > 1:
        who += f" of {timeline.machine}"
    what = (
        f"{names['method']}, {units.size(timeline.size_bytes)} by {who}, thread "
        f"{timeline.tid}, to {names['file_system']} on {names['device']}, {where}"
        f"{served_from(timeline)}"
    )
    yield from map(Text, wrapped(what, width))
    if timeline.realtime_ns is not None:
        yield Text(f"{_wall_clock(timeline.realtime_ns)} UTC")
    if timeline.caller_ns:
        away = units.duration(timeline.caller_ns)
        text = f"between its {len(timeline.calls_ns)} calls: {away} of the caller's own, not shown"
        yield from map(Text, wrapped(text, width))


def served_from(timeline: Timeline) -> str:
    """The end of a line: of a read only."""
    return f", served from {timeline.served}" if timeline.served else ""


def _file(timeline: Timeline) -> str:
    """Its path where that was recorded, else its number."""
    path = timeline.names.get("file", "")
    return path if "/" in path else f"inode {timeline.inode}"


def _wall_clock(realtime_ns: int) -> str:
    seconds, ns = divmod(realtime_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{ns:09d}"


def _strips(timeline: Timeline, width: int, blocks: bool) -> Iterator[Text]:
    """One line a layer; a cell is as high as the part of its time that the layer held."""
    part_width = SHARE_WIDTH if width >= NARROW else 0
    lanes = {lane.layer: lane for lane in timeline.lanes}
    layers = [layer for layer in lanes if layer]
    names, indent = name_width(layers), "  " if headed(layers) else ""
    room = max(width - names - TIME_WIDTH - part_width - 2, 8)
    head = f"{UNIT.name:<{names}}{'took':>{TIME_WIDTH}}{'share'[:part_width]:>{part_width}}  "
    yield Text(head + _axis(timeline.latency_ns, room), style="dim")
    if len(timeline.calls_ns) > 1:
        yield Text(f"{'calls':<{len(head)}}{_calls(timeline, room)}", style="dim")

    def strip(lane: Lane, name: str) -> Text:
        text = Text(f"{name:<{names}}", style=_style(lane.layer))
        text.append(f"{UNIT.text(lane.time_ns, TIME_WIDTH - 1):>{TIME_WIDTH}}")
        text.append(f"{share(lane.share)[:part_width]:>{part_width}}  ")
        mine = [step for step in timeline.steps if step.layer == lane.layer]
        return text.append(_strip(mine, timeline.latency_ns, room, blocks))

    for section in sections(layers, lambda layer: layer):
        if indent:
            yield Text(section.title, style="bold")
        for layer in section.rows:
            yield strip(lanes[layer], indent + layer.row)
    if None in lanes:
        yield strip(lanes[None], _name(None))


def _axis(latency_ns: int, room: int) -> str:
    last = UNIT.text(latency_ns, TIME_WIDTH)
    half = UNIT.text(latency_ns / 2, TIME_WIDTH)
    line = f"0{last:>{room - 1}}"
    if room < 2 * len(last) + len(half) + 8:
        return line
    middle = room // 2
    return f"{line[:middle]}{half}{line[middle + len(half) :]}"


def _calls(timeline: Timeline, room: int) -> str:
    line = ""
    named = {step.called_ns: step.evidence.call for step in timeline.steps if step.evidence.call}
    for begin in timeline.calls_ns:
        cell = min(begin * room // max(timeline.latency_ns, 1), room - 1)
        # A call that began within the name of the one before is written right after it.
        line = f"{line:<{cell}}|{named.get(begin) or ''}"
    return cut(line, room)


def _strip(steps: Sequence[Step], latency_ns: int, room: int, blocks: bool) -> str:
    levels = HEIGHTS if blocks else DENSITIES
    return "".join(_cell(part, levels) for part in cells(steps, latency_ns, room))


def cells(steps: Sequence[Step], latency_ns: int, room: int) -> list[float]:
    """What part of each of ``room`` equal stretches of the write's time the steps hold."""
    held = [0.0] * room
    cell_ns = latency_ns / room or 1.0
    for step in steps:
        begin = step.called_ns / cell_ns
        end = begin + (step.end_ns - step.begin_ns) / cell_ns
        for cell in range(int(begin), min(int(end) + 1, room)):
            held[cell] += max(min(end, cell + 1) - max(begin, cell), 0.0)
    return held


def _cell(part: float, levels: str) -> str:
    """Whatever is there is seen, however short."""
    if part <= 0:
        return " "
    return levels[min(int(part * len(levels)), len(levels) - 1)]


@dataclass(frozen=True)
class _Columns:
    """Of the list of steps. ``titles``: of the layers' segments, where a row needs one;
    ``where``: their width; ``room``: for the evidence."""

    titles: Mapping[Layer, str]
    where: int
    room: int


def _columns(timeline: Timeline, width: int) -> _Columns:
    layers = [lane.layer for lane in timeline.lanes if lane.layer]
    found = sections(layers, lambda layer: layer) if headed(layers) else []
    titles = {layer: section.title for section in found for layer in section.rows}
    where = max((len(title) + 1 for title in titles.values()), default=0)
    room = width - 2 * TIME_WIDTH - 2 - NAME_WIDTH
    # Too narrow for all of that: the names of the rows have their machines, then.
    return _Columns(titles, where, room - where) if room >= where else _Columns({}, 0, room)


def _steps(timeline: Timeline, width: int, limit: int) -> Iterator[Text]:
    """In order of time; what is too short to be among the longest is added up where it was."""
    longest = sorted(timeline.steps, key=lambda step: step.begin_ns - step.end_ns)[:limit]
    shown = {step.begin_ns for step in longest}
    columns, title = _columns(timeline, width), ""
    where = "in".ljust(columns.where)[: columns.where]
    head = f"{'since begin':>{TIME_WIDTH + 2}}{'took':>{TIME_WIDTH}} {where}{'layer':<{NAME_WIDTH}}"
    yield Text(head + ("behind it" if columns.room >= EVIDENCE_WIDTH else ""), style="dim")
    for kept, steps in groupby(timeline.steps, lambda step: step.begin_ns in shown):
        if not kept:
            yield _shorter(list(steps))
            continue
        for step in steps:
            before, title = title, columns.titles.get(step.layer, "") if step.layer else ""
            yield _step(step, title if title != before else "", columns)


def _shorter(steps: Sequence[Step]) -> Text:
    took = UNIT.text(sum(step.end_ns - step.begin_ns for step in steps), TIME_WIDTH - 1)
    text = f"{'':>{TIME_WIDTH + 2}}{took:>{TIME_WIDTH}} {len(steps)} shorter step"
    return Text(f"{text}{'s' if len(steps) > 1 else ''}", style="dim")


def _step(step: Step, title: str, columns: _Columns) -> Text:
    took = UNIT.text(step.end_ns - step.begin_ns, TIME_WIDTH - 1)
    since = "0.00" if step.begin_ns == 0 else UNIT.text(step.begin_ns, TIME_WIDTH + 1)
    text = Text(f"{since:>{TIME_WIDTH + 2}}{took:>{TIME_WIDTH}} ")
    text.append(f"{title:<{columns.where}}", style="bold")
    name = step.layer.row if step.layer and columns.where else _name(step.layer)
    text.append(f"{cut(name, NAME_WIDTH):<{NAME_WIDTH}}", style=_style(step.layer))
    if columns.room >= EVIDENCE_WIDTH:
        text.append(cut(described(step.evidence), columns.room - 1), style="dim")
    return text


def described(evidence: Evidence) -> str:
    """What is behind a step: ``8k at vda:4096 rq ffff888000014000`` is size, disk, sector and
    request, ``8k at 152k`` size and offset in the file; ``xid 6f 800:2049 nfs ±2.00 us`` is
    call, ports, hop and clocks' bound; ``unique 12`` a file system's request of its daemon;
    ``behind stress-ng`` who had what was waited for."""
    parts = [evidence.call or ""]
    if evidence.who:
        parts.append(f"behind {who.named(evidence.who)}")
    size = f"{units.size(evidence.size_bytes)} at " if evidence.size_bytes else ""
    if evidence.offset_bytes is not None:
        parts.append(f"{size}{units.size(evidence.offset_bytes)}")
    if evidence.device:
        sector = f":{evidence.sector}" if evidence.sector is not None else ""
        parts.append(f"{size}{evidence.device}{sector}")
    if evidence.transaction is not None:
        parts.append(f"transaction {evidence.transaction}")
    if evidence.xid is not None:
        parts.append(f"xid {evidence.xid:x}")
    if evidence.connection is not None:
        parts.append(f"{evidence.connection >> 16}:{evidence.connection & 0xFFFF}")
    if evidence.unique is not None:
        parts.append(f"unique {evidence.unique}")
    if evidence.request_key is not None:
        parts.append(f"rq {evidence.request_key:x}")
    if evidence.more:
        parts.append(f"+{evidence.more}")
    # Last, as it is the same for all steps of a hop: what is cut off is told below each table.
    if evidence.hop and evidence.bound_ns is not None:
        parts.append(f"{evidence.hop} ±{units.duration(evidence.bound_ns)}")
    return " ".join(part for part in parts if part)


def _defects(quality: Quality, width: int, word: str) -> list[Text]:
    found = [labelled("lost", [f"{point} ({count})"], width) for point, count in
             sorted(quality.lost.items())]  # fmt: skip
    found += [labelled("damage", [defect], width) for defect in quality.damage]
    found += [labelled("clocks", [crossing.contradiction], width)
              for crossing in quality.crossings if crossing.contradiction]  # fmt: skip
    found += [labelled("left over", [left], width) for left in left_over(quality, word)]
    found += [labelled("apart", [machine], width) for machine in quality.apart]
    return [*(Text(line, style="bold red") for lines in found for line in lines), Text()][
        : None if found else 0
    ]


def _name(layer: Layer | None) -> str:
    return layer.name if layer else "unattributed"


def _style(layer: Layer | None) -> str:
    if layer is None:
        return "yellow"
    return "cyan" if layer.segment == "device" else ""
