# SPDX-License-Identifier: Apache-2.0
"""iostrata html: a recording as one page for the browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec.structs import replace

from iostrata.attribute import Choice, Wanted, by_segment, charts, chosen, summarise
from iostrata.cli import filters, options, present
from iostrata.cli.output import check_new, replacing
from iostrata.cli.story import Story
from iostrata.crew import both
from iostrata.errors import STATUS_LOSSES
from iostrata.foreign import shown
from iostrata.model import Breakdown, Fact, Op
from iostrata.recording import Recording, open_recording
from iostrata.report import Page, page
from iostrata.shelf import answered
from iostrata.trace import IN_MEMORY, Trace

if TYPE_CHECKING:
    from iostrata.analysis import Path as MachinesPath
    from iostrata.analysis import Prepared

SHOWN: Final = Choice(slowest=2, near=(50, 90, 99))
ENV: Final = (
    "hostname", "kernel_release", "kernel_version", "architecture", "machine_cpus",
    "iostrata_version",
)  # fmt: skip
# Nothing is written to a device through these.
NO_STORAGE: Final = IN_MEMORY | {"efivarfs", "nfsd", "pstore", "squashfs"}
UNNAMED: Final = "(none)"


def html(
    recording: options.Recording,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where the page goes.")
    ],
    by: options.Grouping = None,
    since: filters.Since = "",
    until: filters.Until = "",
    process: filters.Process = None,
    to_file: filters.File = None,
    slower_than: filters.SlowerThan = "",
    op: options.OneOp = options.Operations.SYNC,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    jobs: options.Jobs = 0,
    no_cache: options.NoCache = False,
    quiet: options.Quiet = False,
) -> int:
    """Make one HTML page of a recording.

    The page holds the table, the layers over time and by latency, what makes
    the slowest writes slow, some single writes, and what the numbers rest on;
    of several machines the arithmetic of `iostrata estimate`, too; of reads
    (--op read) what served them. It needs no network and no other file, and
    follows the browser's dark mode. On paper, all is there that the browser
    shows only when asked. Charts can be zoomed by dragging; arrow keys move
    along them.

    \b
      iostrata html /var/tmp/db -o db.html
      iostrata html /var/tmp/db --op read -o reads.html
    """
    check_new(output, force)
    wanted = filters.wanted(since, until, process, to_file, slower_than)
    opened = open_recording(recording)
    group, kind = by.value if by else "", Op(op.value)
    cached = not no_cache

    def made() -> Page:
        # Which is not loaded for a page that is known.
        from iostrata.analysis import prepare  # noqa: PLC0415

        found = prepare(opened, kind, jobs)
        breakdown = present.told(opened, kind, jobs, cached, quiet, found)
        return _page(opened, found, chosen(breakdown, wanted), group, wanted, jobs)

    question = f"page {group!r} {wanted!r}"
    told = answered(opened, kind, question, Page, made, cached)
    told = replace(told, name=shown(recording.resolve().name))
    with replacing(output) as part:
        part.write_text(page.render(told), encoding="utf-8")
    story = Story(quiet)
    story.say(f"wrote {output}")
    if told.summary.quality.doubtful:
        story.say(
            "the recording has losses or damage, or much left out or over: see the end of the page"
        )
        return STATUS_LOSSES
    return 0


def _page(
    recording: Recording,
    found: Prepared,
    breakdown: Breakdown,
    by: str,
    wanted: Wanted,
    jobs: int,
) -> Page:
    """Without a name. ``jobs``: by so many threads."""
    from iostrata.analysis import Given, estimate, timelines_of  # noqa: PLC0415

    several = len(found.path.members) > 1
    estimated = several and not wanted.told() and found.op is Op.SYNC
    summary, (drawn, singles) = both(
        lambda: summarise(breakdown, by),
        # The layers of several machines are too many to tell apart in one chart.
        lambda: (
            charts(by_segment(breakdown) if several else breakdown),
            timelines_of(found, SHOWN, wanted),
        ),
        jobs,
    )
    return Page(
        name="",
        summary=summary,
        charts=drawn,
        timelines=singles,
        facts=_facts(recording, found.path),
        estimate=estimate(found, breakdown, Given()) if estimated else None,
    )


def _facts(recording: Recording, path: MachinesPath) -> dict[str, list[Fact]]:
    """By the title of their list; the recording's own come before the first machine's."""
    told = []
    if recording.created:
        told.append(Fact("recorded", recording.created))
    if recording.command:
        told.append(Fact("command", " ".join(map(shown, recording.command))))
    if len(path.members) == 1:
        return {"The machine": [*told, *_of_machine(path.members[0].trace)]}
    of_machines = {
        f"Machine {member.trace.machine}": list(_of_machine(member.trace))
        for member in path.members
    }
    return {"The recording": told} | of_machines


def _of_machine(trace: Trace) -> Iterator[Fact]:
    for name in ENV:
        if trace.env.get(name, UNNAMED) != UNNAMED:
            yield Fact(name.replace("_", " "), shown(str(trace.env[name])))
    for block in trace.facts.blocks.values():
        said = [f"scheduler {block.scheduler}" if block.scheduler else "", block.write_cache,
                {True: "FUA", False: "no FUA", None: ""}[block.fua]]  # fmt: skip
        yield Fact(block.name, ", ".join(filter(None, said)) or "no queue of its own")
    for mount in trace.facts.mounts:
        if mount.file_system in NO_STORAGE:
            continue
        device = trace.facts.device_name(mount.device_key)
        text = f"{mount.file_system} on {device} ({mount.options})"
        yield Fact(shown(mount.mount_point), shown(text))
