# SPDX-License-Identifier: Apache-2.0
"""iostrata export: a recording as a file of another program's format."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from iostrata.attribute import select
from iostrata.cli import filters, options
from iostrata.cli.output import check_new, open_to_others, replacing
from iostrata.cli.present import told
from iostrata.cli.story import Story
from iostrata.columns import Ints
from iostrata.errors import STATUS_LOSSES, UsageError
from iostrata.export import (
    SPANS,
    batches,
    check_arrow,
    check_perfetto,
    columns,
    slices_of,
    write_csv,
    write_parquet,
    write_perfetto,
)
from iostrata.model import Op
from iostrata.recording import FILE_NAME, Recording, give, open_recording, redact

if TYPE_CHECKING:
    from iostrata.analysis import Prepared

MOST: Final = 10_000
"""How many writes go into a Perfetto trace unless told: some 300,000 slices."""
MOST_OF_SEVERAL: Final = 1_000
"""The same of several machines, where a write has some 500."""

File = Path | None


def export(
    recording: options.Recording,
    perfetto: Annotated[
        File, typer.Option("--perfetto", metavar="FILE", help="A trace for ui.perfetto.dev.")
    ] = None,
    parquet: Annotated[
        File, typer.Option("--parquet", metavar="FILE", help="One row a write.")
    ] = None,
    csv: Annotated[File, typer.Option("--csv", metavar="FILE", help="The same as text.")] = None,
    spans: Annotated[
        File, typer.Option("--spans", metavar="FILE", help="One row a span, as Parquet.")
    ] = None,
    redacted: Annotated[
        File,
        typer.Option(
            "--redact", metavar="NEWDIR", help="The recording once more, without anybody's names."
        ),
    ] = None,
    writes: Annotated[
        str,
        typer.Option(
            "--writes",
            metavar="FROM:TO",
            show_default=False,
            help=f"Which writes go into the Perfetto trace; the first {MOST} by default, "
            f"{MOST_OF_SEVERAL} of several machines.",
        ),
    ] = "",
    since: filters.Since = "",
    until: filters.Until = "",
    process: filters.Process = None,
    to_file: filters.File = None,
    slower_than: filters.SlowerThan = "",
    op: options.OneOp = options.Operations.SYNC,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    jobs: options.Jobs = 0,
    no_cache: options.NoCache = False,
    quiet: options.Quiet = False,
) -> int:
    """Export a recording for Perfetto, SQL and spreadsheets.

    --parquet and --csv hold all writes: id, times, method, process, device, and
    one column a layer in ns; these columns and unattributed_ns add up to latency_ns.
    With --op read there is a row a read, and what served it (served).

    --spans holds what was at work for each write, and when (kind work), and who
    held its time (kind held: these add up to its latency).

    --redact makes a recording to be given away: it replays to the same numbers,
    and holds no name of a file, process, host, control group or command. The same
    name has the same pseudonym everywhere. Times, sizes, numbers of processes and
    files, kinds of file systems and the kernel's names of disks stay.

    --perfetto holds some writes as a timeline: one track a thread with its
    writes and who held their time, and one a layer with what was at work
    there, machine by machine, each in its own clock; flows lead from machine
    to machine. Numbers are those of `iostrata timeline --id`.

    \b
      iostrata export /var/tmp/db --perfetto db.pftrace --writes 5000:6000
      iostrata export /var/tmp/db --parquet db.parquet --spans spans.parquet
      iostrata export /var/tmp/db --csv db.csv --force
      iostrata export /var/tmp/db --op read --parquet reads.parquet
      iostrata export /var/tmp/db --redact db-to-show
    """
    wanted = [path for path in (perfetto, parquet, csv, spans) if path]
    if not wanted and not redacted:
        raise UsageError(
            "nothing to export",
            "give one of --perfetto, --parquet, --csv, --spans and a FILE, or --redact NEWDIR",
        )
    if len(set(wanted)) < len(wanted):
        raise UsageError("two formats cannot have one file", "give each a name of its own")
    for path in wanted:
        check_new(path, force)
    if perfetto:
        check_perfetto()
    if parquet or spans:
        check_arrow("Parquet", ", or export --csv")
    first, last = _range(writes)
    choice = filters.wanted(since, until, process, to_file, slower_than)
    story = Story(quiet)
    source = open_recording(recording)
    if redacted:
        _redact(source, redacted, story)
        if not wanted:
            return 0
    found = None
    if perfetto or spans:
        # Which is not loaded for a table of what is known.
        from iostrata.analysis import Beside, prepare, quality_of  # noqa: PLC0415

        found = prepare(source, Op(op.value), jobs)
        chosen = choice.rows(found.writes)
        rows = _rows(found, chosen, first, last, bool(writes), story) if perfetto else chosen
        beside = Beside(found, chosen if spans else rows)
        if perfetto:
            slices = slices_of(beside, rows)
            beside.audits.update(slices.audits)
            with _named(perfetto, story) as file:
                write_perfetto(file, found, rows, slices)
        own = quality_of(found.path, found.plain_writes, {})
        rest_on = cache(lambda: beside.told(own, jobs))
        if spans:
            with _named(spans, story) as file:
                write_parquet(file, batches(beside, jobs), rest_on, SPANS)
        quality = rest_on()
    if parquet or csv:
        breakdown = told(source, Op(op.value), jobs, not no_cache, quiet, found)
        quality = breakdown.quality
        chosen = choice.rows(breakdown.writes)
        every = len(chosen) == len(breakdown.writes)
        breakdown = breakdown if every else select(breakdown, chosen)
        if parquet:
            with _named(parquet, story) as file:
                write_parquet(file, [columns(breakdown, chosen + 1)], lambda: quality)
        if csv:
            with _named(csv, story) as file:
                write_csv(file, columns(breakdown, chosen + 1), jobs)
    if quality.doubtful:
        story.say(
            "the recording has losses or damage, or much left out or over: see iostrata replay"
        )
        return STATUS_LOSSES
    return 0


def _redact(recording: Recording, directory: Path, story: Story) -> None:
    """Of all of it, whatever writes are chosen; half of one is not left behind."""
    if directory.exists():
        raise UsageError(f"{directory} exists", "give a directory that does not exist yet")
    if not directory.parent.is_dir():
        raise UsageError(f"there is no directory {directory.parent}", "make it first")
    part = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        redact(recording, part)
        open_to_others(part, 0o777)
        open_to_others(part / FILE_NAME, 0o666)
        give(part)
        part.rename(directory)
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        # What is written has another name meanwhile, or none where a disk is full.
        if isinstance(error, OSError) and str(part) in str(error.filename or part):
            error.filename, error.filename2 = str(directory), None
        raise
    story.say(f"wrote {directory}: iostrata replay {directory}")


@contextmanager
def _named(path: Path, story: Story) -> Iterator[Path]:
    with replacing(path) as part:
        yield part
    story.say(f"wrote {path}")


def _range(text: str) -> tuple[int, int]:
    """``5000:6000``, ends included; ``:`` or empty all, ``7`` one."""
    if not text:
        return 1, 0
    match = re.fullmatch(r"(\d*)(:?)(\d*)", text)
    if not match:
        raise UsageError(f"--writes {text}: no range of writes", "--writes 5000:6000")
    first = int(match[1] or 1)
    last = int(match[3]) if match[3] else 0 if match[2] else first
    if first < 1 or (last and last < first):
        raise UsageError(f"--writes {text}: no range of writes", "--writes 5000:6000")
    return first, last


def _rows(found: Prepared, chosen: Ints, first: int, last: int, told: bool, story: Story) -> Ints:
    """Of the chosen writes those with numbers ``first`` to ``last``, or not too many."""
    count, word = len(found.writes), found.op.word
    if first > count:
        raise UsageError(
            f"there is no {word} {first}", f"this recording's {word}s are 1 to {count}"
        )
    if told:
        return chosen[(chosen >= first - 1) & (chosen < (last or count))]
    most = MOST_OF_SEVERAL if len(found.path.members) > 1 else MOST
    if len(chosen) > most:
        last = chosen[most - 1] + 1
        story.say(
            f"the Perfetto trace holds {word}s {chosen[0] + 1} to {last} of {len(chosen)}; "
            "--writes : for all"
        )
    return chosen[:most]
