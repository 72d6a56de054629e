# SPDX-License-Identifier: Apache-2.0
"""Trace: of what another tool recorded, what the metadata says of how that went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

RECORDED_BY: Final = "recorded_by"
"""Not said of what the recorder recorded."""
BPFTRACE: Final = "bpftrace"
BAD_LINES: Final = "bad_lines"
FIRST_BAD_LINE: Final = "first_bad_line"
LOST_UNTOLD: Final = "lost_untold"
UNSEEN_CALLS: Final = "unseen_"
"""Before the name of a call that was counted only."""
TREE: Final = "process tree of the command"
"""Whom the recorder was to record, where nothing else chose them."""

Env = Mapping[str, str | int]


def by_recorder(env: Env) -> bool:
    """Whether it was recorded by the recorder, of whatever version."""
    return "buffer_kib" in env


def of_tree(env: Env) -> bool:
    """Whether what a command and its children did was recorded, and of nobody else."""
    return env.get("filter") == TREE


def of_all(env: Env) -> bool:
    """Whether what every process did was recorded."""
    return "--all" in str(env.get("filter", "")).split()


def of_device(env: Env) -> bool:
    """Whether only what goes to some devices was recorded."""
    return "--device" in str(env.get("filter", "")).split()


def tells_loss_times(env: Env) -> bool:
    """Whether its packets tell when events were lost, and not only by when they are counted."""
    return env.get("loss_times") == 1


def by_script(env: Env) -> bool:
    """Whether a trace was made of what bpf/iostrata.bt printed."""
    return env.get(RECORDED_BY) == BPFTRACE


def unread(env: Env) -> Iterator[str]:
    """A line for each thing that is missing, and of which no loss tells when."""
    bad, first = env.get(BAD_LINES), env.get(FIRST_BAD_LINE)
    if isinstance(bad, int) and bad > 0:
        what = "one line" if bad == 1 else f"{bad} lines"
        where = f"line {first}" if bad == 1 else f"the first is line {first}"
        yield f"{what} of what bpftrace printed could not be read ({where}): lost, if events"
    lost = env.get(LOST_UNTOLD)
    if isinstance(lost, int) and lost > 0:
        yield f"{lost} more events were lost than lines are missing: when is not known"
