# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: the link from a guest to its host in, what its writes waited for as QEMU copied
its disks out."""

from __future__ import annotations

from collections.abc import Iterator

from iostrata.hops import Link, copied


def copying(link: Link) -> Iterator[str]:
    """What a backup reads before it writes is in no row of the host's, if reads were not
    recorded."""
    if count := copied(link):
        yield (
            f"{count} of its writes waited for QEMU to copy them, or what was there, to another "
            "file (a mirror, a backup): what was written there is in the rows of its host"
        )
