# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a declared workload in, its command and what it says of itself out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import msgspec

from iostrata.errors import LabError
from iostrata.lab.pace import Pace
from iostrata.lab.scenario import Fio

# Where a workload doesn't say how long it may take.
RUNTIME_S: Final = 300
REHEARSAL_S: Final = 4
# Until it is seen that a workload is under way, and from then to a fault's end, and some more.
FAULT_S: Final = 8
# Linux's initiator of NVMe over TCP sends what it can on the writing thread's own time, and
# without MSG_NOSIGNAL: a write by a connection that just ended ends the program that wrote.
_DEAF: Final = ("env", "--ignore-signal=PIPE")
# What fio takes to make its files, on a slow machine.
PREPARATION_LIMIT_S: Final = 120.0


@dataclass(frozen=True)
class Witness:
    """The workload's own account of what is measured of it: how many, how long on average.

    ``untold_ns``: of that, what the kernel may know nothing of: until it is asked, and while what
    is complete lies in a ring.
    """

    count: int
    mean_ns: float
    untold_ns: float = 0.0


def command(workload: Fio, output: str) -> tuple[str, ...]:
    """``output``: the file that gets its account."""
    return (
        *_DEAF,
        "fio",
        f"--name={workload.name}",
        f"--directory={workload.directory}",
        f"--runtime={RUNTIME_S}",
        *(f"--{key}={value}" for key, value in workload.options.items()),
        "--group_reporting=1",
        "--output-format=json",
        f"--output={output}",
    )


def preparation(workload: Fio, output: str) -> tuple[str, ...]:
    """The command that makes the workload's files, which is not recorded."""
    return (*command(workload, output), "--create_only=1")


def rehearsal(workload: Fio, output: str) -> tuple[str, ...]:
    """The command that runs the workload for a moment."""
    return (*command(workload, output), f"--runtime={REHEARSAL_S}")


def prolonged(workload: Fio, pace: Pace) -> Fio:
    """One that lasts for a time, for so long that a fault has its time in the midst."""
    runtime_s = int(workload.options.get("runtime", 0))
    if not runtime_s:
        return workload
    options = {**workload.options, "runtime": round(pace.limit_s(runtime_s + FAULT_S))}
    return msgspec.structs.replace(workload, options=options)


class _Latency(msgspec.Struct, frozen=True):
    count: int = msgspec.field(name="N", default=0)
    mean: float = 0.0


class _Transfers(msgspec.Struct, frozen=True):
    slat_ns: _Latency = _Latency()
    clat_ns: _Latency = _Latency()
    lat_ns: _Latency = _Latency()
    total_ios: int = 0


class _Sync(msgspec.Struct, frozen=True):
    lat_ns: _Latency = _Latency()


class _Job(msgspec.Struct, frozen=True):
    write: _Transfers = _Transfers()
    read: _Transfers = _Transfers()
    sync: _Sync = _Sync()


class _Output(msgspec.Struct, frozen=True):
    jobs: tuple[_Job, ...]


def witness(output: bytes, op: str = "sync", late: float = 0.0) -> Witness:
    """From fio's JSON: write and sync together, where each write has a sync call of its own.

    ``op`` direct: of whatever fio transfers, each from its submission on. ``late``: of its mean,
    what may pass until it looks at its ring.
    """
    text = output.decode(errors="replace")
    start = max(text.find("{"), 0)  # it may warn before it begins, and behind its end
    try:
        account, _ = json.JSONDecoder().raw_decode(text[start:])
        job = msgspec.convert(account, _Output).jobs[0]
    except (ValueError, msgspec.MsgspecError, IndexError) as error:
        raise LabError(f"fio's account cannot be read: {error}") from error
    if op != "sync":
        kinds = (job.read, job.write)
        count = sum(kind.lat_ns.count for kind in kinds)
        total_ns, before_ns = (
            sum(kind.lat_ns.count * getattr(kind, name).mean for kind in kinds) / max(count, 1)
            for name in ("lat_ns", "slat_ns")
        )
        return Witness(count, total_ns, before_ns + late * total_ns)
    synced = job.sync.lat_ns
    if synced.count:
        return Witness(synced.count, job.write.clat_ns.mean + synced.mean)
    return Witness(job.write.total_ios, job.write.clat_ns.mean)
