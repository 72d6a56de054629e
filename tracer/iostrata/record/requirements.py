# SPDX-License-Identifier: Apache-2.0
"""Record stage: what a machine says of itself in, why it cannot be recorded out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from iostrata.errors import PermissionDenied, RecorderError
from iostrata.record.diagnosis import Verdict
from iostrata.record.place import directory_of
from iostrata.record.recorder import find_recorder
from iostrata.record.transport import Transport

# What is said of the machine, then a directory in which a program may be written and run, and
# 16 MiB more: the recorder's size and a little of a trace. $1: its keeper, or empty.
CHECK: Final = """
echo "user $(id -u)"
echo "architecture $(uname -m)"
echo "boot $(cat /proc/sys/kernel/random/boot_id)"
[ -r /sys/kernel/btf/vmlinux ] && echo "btf yes"
[ "$(id -u)" = 0 ] || exit 0
umask 077
keeper=$1
shift
for place; do
    made=$(mktemp -d "$place/iostrata-XXXXXX") || continue
    if [ "$keeper" ]; then
        (cd / && exec setsid sh -c "$keeper" sh "$made" 600) </dev/null >/dev/null 2>&1 &
    fi
    printf '#!/bin/sh\\n' >"$made/try" && chmod 700 "$made/try" && "$made/try" &&
        head -c 16777216 /dev/zero >"$made/try" && rm "$made/try" &&
        echo "directory $made" && echo "keeper $!" && exit 0
    rm -r "$made"
done 2>/dev/null
"""


def facts_of(output: str) -> dict[str, str]:
    """What CHECK printed, by its first word; what else a machine says does not matter."""
    words = (line.partition(" ") for line in output.splitlines())
    return {name: value for name, _, value in words}


def check_machine(found: Mapping[str, str], transport: Transport) -> None:
    """RecorderError, PermissionDenied: no recorder can run there."""
    if "architecture" not in found:
        raise RecorderError("it runs no commands", "sh, id, uname and mktemp must be there")
    find_recorder(found["architecture"])
    if found.get("user") != "0":
        raise PermissionDenied(
            f"recording with eBPF needs root, and it is entered as user {found.get('user')}",
            "give ssh:root@HOST, or a host of ~/.ssh/config with User root",
        )
    if "btf" not in found:
        raise PermissionDenied(
            "its kernel has no BTF (/sys/kernel/btf/vmlinux is missing)",
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y (Debian's and most others have it)",
        )
    if not directory_of(found, transport.places):
        raise RecorderError(
            f"a program can be written and run in none of {', '.join(transport.places)}",
            "free some space there, or mount one without noexec",
        )


def check_visibility(visibility: Sequence[Verdict]) -> None:
    """RecorderError: what every machine must show is missing."""
    blind = [each.visibility for each in visibility if each.visibility.needed and each.seen == "no"]
    if blind:
        raise RecorderError(
            f"its kernel does not show {', '.join(visibility.name for visibility in blind)}: "
            f"{blind[0].without}",
            "iostrata doctor there says more",
        )


def blind_spots(role: str, visibility: Sequence[Verdict]) -> list[str]:
    """What a machine of that role should show, and does not; each once."""
    mine = [each for each in visibility if role and each.visibility.role == role]
    blind = [each for each in mine if each.seen in ("no", "absent")]
    said = (
        each.visibility.absent if each.seen == "absent" else each.visibility.without
        for each in blind
    )
    return list(dict.fromkeys(said))
