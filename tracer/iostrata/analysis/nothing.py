# SPDX-License-Identifier: Apache-2.0
"""Why nothing is left to analyse: what is missing of a recording in, what to do about it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from iostrata.analysis.left_out import NEVER_RECORDED, OF_COMPAT, WHAT_TO_DO
from iostrata.analysis.outlived import OUTLIVED
from iostrata.analysis.unended import BEFORE, STILL
from iostrata.errors import NothingToAnalyse
from iostrata.hops import LIBRARY
from iostrata.model import Op, Quality
from iostrata.stitch import HANGING, LOST
from iostrata.trace import NO_ROOM, Env, of_device, of_tree

NONE_OF: Final = {Op.READ: "read of a file", Op.DIRECT: "read or write with O_DIRECT"}
HAVE_IT_FOR_OTHERS: Final = (
    "have it write to a file, on a disk that the kernel's rbd, rbd-nbd or a virtual machine has"
)
NO_FILE: Final = "pipes, sockets and terminals do not count"
NO_SYNC: Final = "only O_SYNC or O_DSYNC writes, fsync and its like, sync and msync count"
BY_ANOTHER: Final = "what the command has a server do (psql, mysql) is the server's: --comm, --pid"
ELSEWHERE: Final = "check that the file is on the --device: with its journal there alone, it is not"
NOT_CHOSEN: Final = "check that the filter names the process that makes them"
IN_FRONT: Final = (
    "have the command stay until they have ended (daemons have an option: in the foreground), or "
    "record what it left: --pid"
)
CALLS: Final = "syscall: "
"""How what was not observed of system calls begins: without them there is no write."""


def none_found(
    op: Op, left_out: Mapping[str, int], quality: Quality, envs: Sequence[Env]
) -> NothingToAnalyse:
    """``envs``: of what was recorded, among other things whom the recorder was to."""
    reasons, damage = [f"{reason} ({count})" for reason, count in left_out.items()], quality.damage
    unseen = _by_library(quality)
    if not reasons:
        behind = _outlived(quality)
        none = f"the recording holds no {NONE_OF[op]}{unseen or behind}"
        otherwise = IN_FRONT if behind else f"{NO_FILE}; {_not_asked(envs)}"
        hint = HAVE_IT_FOR_OTHERS if unseen else otherwise
        return NothingToAnalyse("; ".join([none, *damage]), _damaged(damage) if damage else hint)
    most = max(left_out, key=left_out.__getitem__, default="")
    return NothingToAnalyse(
        f"every {op.word} had to be left out: {'; '.join([', '.join(reasons), *damage])}{unseen}",
        WHAT_TO_DO.get(most, "record again, with a larger --buffer where events were lost"),
    )


def no_write_found(
    left_out: Mapping[str, int],
    quality: Quality,
    others: Sequence[Op],
    empty: Sequence[str],
    envs: Sequence[Env],
) -> NothingToAnalyse:
    """``others``: what the recording was asked for beside synchronous writes; ``empty``: the hosts
    on which no virtual machine was seen; ``envs`` as of ``none_found``."""
    return NothingToAnalyse(*_why(left_out, quality, others, empty, envs))


def _why(
    left_out: Mapping[str, int],
    quality: Quality,
    others: Sequence[Op],
    empty: Sequence[str],
    envs: Sequence[Env],
) -> tuple[str, str]:
    if [*left_out] == [HANGING] and not quality.damage:
        calls = "one call" if left_out[HANGING] == 1 else f"{left_out[HANGING]} calls"
        none = f"no synchronous write ended here: {calls} hung all the while"
        return "; ".join([none, *_lengths(quality)]), WHAT_TO_DO[HANGING]
    if left_out:
        reasons = ", ".join(f"{reason} ({count})" for reason, count in left_out.items())
        told = [reasons, *_lengths(quality), *quality.damage]
        return (
            f"every synchronous write had to be left out: {'; '.join(told)}",
            _damaged(quality.damage)
            if quality.damage
            else WHAT_TO_DO.get(max(left_out, key=left_out.__getitem__), "record again"),
        )
    for gap in quality.not_observed:
        if gap.layer.startswith(CALLS):
            return (
                f"the recording holds no synchronous write; {gap.layer}: {gap.reason}",
                "`iostrata doctor` says what is needed, on the machine that was recorded",
            )
    plain = f" ({quality.plain_writes} plain ones)" if quality.plain_writes else ""
    lost = [f"{count} events of {point} were lost" for point, count in quality.lost.items()]
    if missing := "; ".join([*quality.damage, *lost]):
        return (
            f"what there is of the recording holds no synchronous write{plain}: {missing}",
            _damaged(quality.damage) if quality.damage else WHAT_TO_DO[LOST],
        )
    if empty:
        return (
            f"the recording holds no synchronous write{plain}, and no virtual machine was seen on "
            f"{', '.join(empty)}: a process that has one of KVM's open (anon_inode:kvm-vm)",
            "run it with KVM: what a QEMU without does for its guest is not recorded",
        )
    if unseen := _by_library(quality):
        return f"the recording holds no synchronous write{plain}{unseen}", HAVE_IT_FOR_OTHERS
    if untold := [gap for gap in quality.not_observed if gap.layer in NEVER_RECORDED]:
        counted = "; ".join(f"{gap.layer}: {gap.reason}" for gap in untold)
        again = "once more" if untold[0].layer == OF_COMPAT else "without --device"
        return f"the recording holds no synchronous write{plain}; {counted}", f"record {again}"
    if not others and (behind := _outlived(quality)):
        return f"the recording holds no synchronous write{plain}{behind}", IN_FRONT
    return (
        f"the recording holds no synchronous write{plain}",
        f"it was asked for other kinds: iostrata replay --op {others[0]}"
        if others
        else f"{NO_SYNC}; {_not_asked(envs)}",
    )


def _not_asked(envs: Sequence[Env]) -> str:
    """Whose it may be, that the recorder was not asked for."""
    if any(of_tree(env) for env in envs):
        return BY_ANOTHER
    return ELSEWHERE if any(of_device(env) for env in envs) else NOT_CHOSEN


def _lengths(quality: Quality) -> list[str]:
    """How long what is left out went on, as far as that is known."""
    gaps = [gap for gap in quality.not_observed if gap.layer in (STILL, BEFORE)]
    return [f"of {gap.layer}, {gap.reason.partition(',')[0]}" for gap in gaps]


def _by_library(quality: Quality) -> str:
    """Of what programs do without calls; empty: of nothing that is known."""
    unseen = [gap.reason for gap in quality.not_observed if gap.layer == LIBRARY.layer]
    return f"; {unseen[0]}, is not seen" if unseen else ""


def _outlived(quality: Quality) -> str:
    """Of what the command left behind, with which no recording goes on; empty: of nothing."""
    left = [gap.reason for gap in quality.not_observed if gap.layer == OUTLIVED]
    return f", but {left[0].partition(':')[0]} as the command ended" if left else ""


def _damaged(damage: Sequence[str]) -> str:
    """What to do: no copy of a recording has what there was no room for."""
    if all(NO_ROOM in line for line in damage):
        return "record fewer at once: --comm, --pid, --cgroup or --device choose"
    return "copy the recording anew, whole and readable, or record again"
