# SPDX-License-Identifier: Apache-2.0
"""iostrata replay: analyse a recording again."""

from __future__ import annotations

from iostrata.cli import options
from iostrata.cli.present import Wishes, present


def replay(
    recording: options.Recording,
    by: options.Grouping = options.By.METHOD,
    tail: options.Tail = False,
    json: options.Json = "",
    csv: options.Csv = "",
) -> int:
    """Analyse a recording and print its table.

    Needs no root, and not the machine that was recorded. The same recording
    gives the same output, byte by byte, wherever it is read.

    \b
      iostrata replay /var/tmp/db
      iostrata replay /var/tmp/db --by process
      iostrata replay /var/tmp/db --json - | jq .layers
    """
    return present(recording, Wishes(by.value, json, csv, tail))
