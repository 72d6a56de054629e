# SPDX-License-Identifier: Apache-2.0
"""Record stage: the temporary directory that is made on a machine, and how it goes again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

# Where who records is killed, or cut off for good, nobody else removes what was made there: $1,
# looked at each $2 seconds. It is that very directory, by its inode, and what is put there.
KEPT: Final = "a week"
KEEPER: Final = """
inode_of() { ls -di "$1" 2>/dev/null | (read -r inode name; echo "$inode"); }
made=$(inode_of "$1")
old=0
while [ $old -lt 2 ]; do
    sleep "$2"
    [ "$(inode_of "$1")" = "$made" ] || exit
    old=$((old + 1))
    young=$(find "$1" -mtime -7) && [ -z "$young" ] || old=0
done
cd "$1" && [ "$(inode_of .)" = "$made" ] && rm -rf try iostrata-record trace && cd / && rmdir "$1"
"""
# Nothing is left of $1, nor of its keeper, which is process $2.
TIDY: Final = """
grep -qF "$1" "/proc/$2/cmdline" 2>/dev/null && kill -- "-$2"
rm -rf "$1"
"""
MADE: Final = re.compile(r"iostrata-\w{6}", re.ASCII)


def directory_of(found: Mapping[str, str], places: Sequence[str]) -> str:
    """What a machine says was made in one of ``places``, or empty.

    It is removed at the end: of a greeting that has such a line, no word is taken for it.
    """
    place, _, name = found.get("directory", "").rpartition("/")
    return f"{place}/{name}" if place in places and MADE.fullmatch(name) else ""
