# SPDX-License-Identifier: Apache-2.0
"""The script stage: a file of bpf/iostrata.bt's lines in, one machine's trace out.

It is written as a recorder writes one, but that what the script does not tell of an event is no
field of it: nobody takes that for zero.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import __version__
from iostrata.errors import RecordingError
from iostrata.foreign import shown
from iostrata.script.lines import Lines, read_lines
from iostrata.script.machine import cpus_of, devices_of, facts_of, parents_of
from iostrata.script.missing import Missing, missing_of
from iostrata.script.places import Columns, keyed
from iostrata.script.words import HEAD, WORDS
from iostrata.trace import RECORDER_CPU, Clock, layout, read_small, with_fields, write_trace

SECOND: Final = 1_000_000_000
WALL_BOUND_NS: Final = 1_000_000
"""bpftrace tells the wall clock to the microsecond, and reads the other one before."""
PACKET_EVENTS: Final = 128
"""What was lost is known to be in a packet."""
BLOCK: Final = tuple(word for word in WORDS if word.startswith("block_"))
REQUEST: Final = ("request_key", "bio_key", "sector", "dev", "size_bytes", "flags")
BIO: Final = ("bio_key", "sector", "dev", "size_bytes", "flags")
TOLD: Final = {
    "block_bio_queue": (*BIO, "kernel_thread"),
    "block_split": (*BIO, "parent_key"),
    "block_bio_remap": (*BIO, "old_dev", "old_sector"),
    "block_bio_complete": BIO,
    "block_rq_issue": REQUEST,
    "block_rq_requeue": REQUEST,
    "block_rq_complete": REQUEST,
    "sched_resume": ("off_ns", "wake_ns", "waker_tid", "state", "subject_tid", "waker_cpu"),
}
"""Fields of the points of which the script does not tell all."""
WHOLE: Final = ("thread", "clock_sample", "recorder", "loss", "end")

Events = dict[str, NDArray[np.void]]


@dataclass(frozen=True)
class Brought:
    """``lost``: events; ``bad``: lines that could not be read, of which ``first_bad`` is one.

    ``whole``: bpftrace ended by itself. ``cut``: which of the machine's files it printed a part of.
    """

    hostname: str
    kernel: str
    created_ns: int
    events: int
    duration_ns: int
    lost: int
    bad: int
    first_bad: int
    whole: bool
    cut: tuple[str, ...]


def bring(
    file: Path, directory: Path, diskstats: Path | None = None, mountinfo: Path | None = None
) -> Brought:
    """Writes the trace that a file of the script's lines is of, into a directory of its own.

    ``diskstats``, ``mountinfo``: files of that machine, for what bpftrace did not print of them.
    RecordingError: it is none of the script's, or too long.
    """
    lines = read_lines(file)
    names = devices_of(_lines_of(diskstats) if diskstats else lines.partitions)
    mounts = _lines_of(mountinfo) if mountinfo else lines.mounts
    events = _events(lines, parents_of(names))
    missing = _missing(lines)
    own = _of_recorder(lines, events, missing)
    write_trace(
        directory,
        events | own,
        env=_env(lines, missing),
        facts=facts_of(names, mounts),
        packet_events=PACKET_EVENTS,
        discarded=missing.refused,
        clock=_clock(lines),
        uuid=_uuid(file),
        points={name: layout.POINTS[name] for name in _dtypes()},
        dtypes=_dtypes(),
    )
    given = {"partitions": diskstats, "mountinfo": mountinfo}
    return Brought(
        hostname=shown(lines.facts.get("hostname", "")),
        kernel=shown(lines.facts.get("kernel_release", "")),
        created_ns=lines.realtime_ns,
        events=sum(map(len, events.values())),
        duration_ns=_end_ns(lines, events) - lines.begin_ns,
        lost=missing.count,
        bad=lines.bad,
        first_bad=lines.first_bad,
        whole=lines.end_ns >= 0,
        cut=tuple(sorted(name for name in lines.cut if not given[name])),
    )


def _lines_of(path: Path) -> Sequence[str]:
    try:
        return read_small(path).decode(errors="surrogateescape").split("\n")
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}", "copy it from that machine") from error


def _dtypes() -> dict[str, np.dtype[np.void]]:
    """Of each point that the script tells of, only with the fields that it tells."""
    points = dict.fromkeys([*(word.point for word in WORDS.values()), *WHOLE])
    return {name: _restricted(name) for name in points}


def _restricted(point: str) -> np.dtype[np.void]:
    return with_fields(layout.DTYPES[point], TOLD[point]) if point in TOLD else layout.DTYPES[point]


def _events(lines: Lines, parents: Mapping[int, int]) -> Events:
    """The events of each point."""
    parts: dict[str, list[NDArray[np.void]]] = {}
    rows = {word: lines.rows(word) for word in WORDS if word in lines.columns}
    if any(word in rows for word in BLOCK):
        rows |= keyed({word: lines.rows(word) for word in BLOCK}, parents)
    for word, columns in rows.items():
        told = WORDS[word]
        if told.point == "syscall":
            _bounded(columns)
        if told.point == "sched_resume":
            columns["subject_tid"] = columns["tid"]
            _wakes(columns)
        fixed = {name: np.full(len(columns["tid"]), n) for name, n in told.fixed.items()}
        parts.setdefault(told.point, []).append(_slots(told.point, columns | fixed))
    if lines.threads:
        parts["thread"] = [_threads(lines)]
    return {point: np.concatenate(arrays) for point, arrays in parts.items()}


def _slots(point: str, columns: Columns) -> NDArray[np.void]:
    dtype = _restricted(point)
    found = np.zeros(len(columns["tid"]), dtype)
    for name in dtype.names or ():
        if name in columns:
            found[name] = columns[name].astype(dtype[name], casting="unsafe")
    return found


def _bounded(columns: Columns) -> None:
    """In the widths of the event's fields: a length that has no room there is to the end."""
    size = columns["size_bytes"]
    columns["size_bytes"] = np.where((size < 0) | (size >> 32 != 0), 0, size)
    columns["result"] = np.clip(columns["result"], -(1 << 31), (1 << 31) - 1)
    columns["rwf"] = columns["rwf"] & 0xFF


def _wakes(columns: Columns) -> None:
    """Let go while it was leaving the CPU: from when it had left. Preempted: never."""
    wake, asleep = columns["wake_ns"], columns["state"] != 0
    let_go = asleep & (wake > 0)
    columns["wake_ns"] = np.where(let_go, np.maximum(wake, columns["off_ns"]), 0)
    for name in ("waker_tid", "waker_cpu"):
        columns[name] = np.where(let_go, columns[name], 0)


def _threads(lines: Lines) -> NDArray[np.void]:
    found = np.zeros(len(lines.threads), layout.DTYPES["thread"])
    for row, (_, cpu, tid, time, tgid, kind, comm, process) in enumerate(lines.threads):
        values = (("cpu", cpu), ("tid", tid), ("time_ns", time), ("tgid", tgid), ("kind", kind),
                  ("subject_tid", tid), ("comm", comm), ("process", process))  # fmt: skip
        for name, value in values:
            found[name][row] = value
    return found


def _missing(lines: Lines) -> Missing:
    heads = [lines.rows(word) for word in WORDS if word in lines.columns]
    threads = np.array([row[:4] for row in lines.threads], np.int64).reshape(-1, len(HEAD))
    heads.append(dict(zip(HEAD, threads.T, strict=True)))
    cpu, number, time = (
        np.concatenate([rows[name] for rows in heads]) for name in ("cpu", "number", "time_ns")
    )
    return missing_of(cpu, number, time, lines.totals if lines.end_ns >= 0 else {})


def _end_ns(lines: Lines, events: Events) -> int:
    last = max((int(each["time_ns"].max()) for each in events.values() if len(each)), default=0)
    return max(last, lines.end_ns, lines.begin_ns)


def _of_recorder(lines: Lines, events: Events, missing: Missing) -> Events:
    """What a recorder would have told of itself: clocks, its losses, how many events there are."""
    end = _end_ns(lines, events)
    own: dict[str, Columns] = {
        "clock_sample": _columns(
            time_ns=[lines.begin_ns], boottime_ns=[lines.begin_ns],
            realtime_ns=[lines.realtime_ns], width_ns=[WALL_BOUND_NS], cpu=[RECORDER_CPU],
        ),
        "loss": _columns(**missing.so_far(end)),
    }  # fmt: skip
    # One that counted none did not end by itself.
    counted = sum(map(len, events.values())) if lines.end_ns >= 0 else 0
    own["recorder"] = _columns(time_ns=[end], event_count=[counted], cpu=[RECORDER_CPU])
    if lines.end_ns >= 0:
        own["end"] = _columns(time_ns=[end], reason=[layout.END_ASKED], cpu=[RECORDER_CPU])
    return {name: _slots(name, columns) for name, columns in own.items()}


def _columns(**values: list[int]) -> Columns:
    found = {name: np.array(value, np.int64) for name, value in values.items()}
    return found | {"tid": np.zeros(len(found["time_ns"]), np.int64)}


def _env(lines: Lines, missing: Missing) -> dict[str, str | int]:
    told: dict[str, str | int] = {
        "hostname": shown(lines.facts.get("hostname", "unknown")),
        "kernel_release": shown(lines.facts.get("kernel_release", "unknown")),
        "boot_id": shown(lines.facts.get("boot_id", "")),
        "architecture": "unknown",
        "iostrata_version": __version__,
        # What was cut lacks the last of the CPUs that there is something of, no whole CPU.
        "machine_cpus": cpus_of(lines.facts.get("cpus", "")) if lines.end_ns >= 0 else 0,
        "recorded_by": "bpftrace",
        "bad_lines": lines.bad,
        "first_bad_line": lines.first_bad,
        "lost_untold": max(lines.lost - missing.count, 0) if lines.end_ns >= 0 else 0,
    }
    return told | {f"unseen_{name}": n for name, n in sorted(lines.unseen.items())}


def _clock(lines: Lines) -> Clock:
    """bpftrace's nsecs goes on while the machine is suspended."""
    ahead = lines.realtime_ns - lines.begin_ns
    return Clock(
        name="boottime", description="CLOCK_BOOTTIME",
        offset_s=ahead // SECOND, offset=ahead % SECOND,
    )  # fmt: skip


def _uuid(file: Path) -> bytes:
    """The same file is the same trace."""
    digest = hashlib.sha256()
    with file.open("rb") as data:
        while part := data.read(1 << 20):
            digest.update(part)
    return digest.digest()[:16]
