# SPDX-License-Identifier: Apache-2.0
"""iostrata replay: analyse a recording again."""

from __future__ import annotations

from iostrata.cli import filters, options
from iostrata.cli.present import Wishes, present


def replay(
    recording: options.Recording,
    by: options.Grouping = None,
    since: filters.Since = "",
    until: filters.Until = "",
    process: filters.Process = None,
    to_file: filters.File = None,
    slower_than: filters.SlowerThan = "",
    tail: options.Tail = False,
    who: options.Who = False,
    histogram: options.Histogram = False,
    over_time: options.OverTime = False,
    op: options.Op = options.Operations.SYNC,
    json: options.Json = "",
    csv: options.Csv = "",
    jobs: options.Jobs = 0,
    no_cache: options.NoCache = False,
) -> int:
    """Analyse a recording and print its table.

    Needs no root, and not the machine that was recorded. The same recording
    gives the same output, byte by byte, wherever it is read.

    Of some writes only: --from and --to (when they began), --process, --file,
    --slower-than; of these, those for which all of it holds. The rows are then
    of these writes, and add up for each; what is below the table, of all.

    Of reads instead (--op read), or of what has O_DIRECT (--op direct), where
    the recording was asked for it.

    \b
      iostrata replay /var/tmp/db
      iostrata replay /var/tmp/db --by process
      iostrata replay /var/tmp/db --by file
      iostrata replay /var/tmp/db --histogram --over-time
      iostrata replay /var/tmp/db --from 30s --to 35s --slower-than 10ms
      iostrata replay /var/tmp/db --from 14:03:20 --file '*/pg_wal/*'
      iostrata replay /var/tmp/db --op read --by served
      iostrata replay /var/tmp/db --json - | jq .layers
    """
    wanted = filters.wanted(since, until, process, to_file, slower_than)
    wishes = Wishes(
        by=by.value if by else "",
        json=json,
        csv=csv,
        tail=tail,
        who=who,
        histogram=histogram,
        over_time=over_time,
        wanted=wanted,
        op=op.value,
        jobs=jobs,
        cached=not no_cache,
    )
    return present(recording, wishes)
