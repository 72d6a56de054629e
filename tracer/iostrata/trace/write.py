# SPDX-License-Identifier: Apache-2.0
"""Trace writing: columns of events to a machine's directory, as the recorder writes it.

For what another tool recorded, and for synthetic recordings: every later stage reads it as if
a kernel had said it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iostrata.columns import distinct
from iostrata.trace import layout
from iostrata.trace.fact_files import ABSENT, BLOCK_COLUMNS
from iostrata.trace.facts import BlockDevice, Striping
from iostrata.trace.metadata import EVENT_HEADER, FORMAT_VERSION, Clock, render
from iostrata.trace.packet import CRC_AT, HEAD, HEAD_BITS, HEAD_BYTES, MAGIC
from iostrata.trace.stream import RECORDER_CPU, RECORDER_STREAM
from iostrata.trace.times import NEVER_ZERO, ZERO_TELLS

RECORDER_POINTS = frozenset(
    {"clock_sample", "loss", "miss", "full", "end", "unseen", "cost", "recorder", "probe"}
)
EMPTY_CONTENT_BITS = HEAD.size * 8
UUID = bytes.fromhex("105747a7a0000000a000000000000001")
ENV: Mapping[str, str | int] = {
    "iostrata_format": FORMAT_VERSION,
    "iostrata_version": "synthetic",
    "hostname": "synthetic",
    "kernel_release": "6.1.0",
    "architecture": "x86_64",
    "machine_cpus": 2,
}

Columns = Mapping[str, ArrayLike]
Refusals = Mapping[int, Sequence[tuple[int, int]]]


@dataclass(frozen=True, eq=False)
class Slice:
    """What one stream file holds: events in order of time, 64 bytes each."""

    time_ns: NDArray[np.uint64]
    ends: NDArray[np.uint32]
    slots: NDArray[np.uint8]


NOTHING = Slice(np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty((0, 64), np.uint8))


def write_trace(
    directory: Path,
    events: Mapping[str, NDArray[np.void] | Columns],
    *,
    env: Mapping[str, str | int] | None = None,
    facts: Mapping[str, str] | None = None,
    packet_events: int = 1000,
    discarded: Refusals | None = None,
    clock: Clock | None = None,
    uuid: bytes = UUID,
    points: Mapping[str, int] = layout.POINTS,
    dtypes: Mapping[str, np.dtype[np.void]] = layout.DTYPES,
) -> None:
    """One machine's directory, made if need be.

    ``events``: by point, an array of its dtype or a mapping of columns (fields
    not given are 0, or begin as the event ends; ``point`` is filled in). ``facts``:
    text by file name.
    ``discarded``: by CPU, (time_ns, how many events were refused then) in
    order of time.
    """
    directory.mkdir(parents=True, exist_ok=True)
    text = render(points, dtypes, {**ENV, **(env or {})}, clock or Clock(), uuid)
    (directory / "metadata").write_text(text)
    arrays = {
        name: as_events(name, columns, dtypes[name], points[name])
        for name, columns in events.items()
    }
    streams = by_stream(arrays)
    for cpu in sorted({*streams, *(discarded or {})}):
        events_of_cpu = streams.get(cpu, NOTHING)
        name = RECORDER_STREAM if cpu == RECORDER_CPU else f"cpu_{cpu}"
        refusals = (discarded or {}).get(cpu, ())
        with (directory / name).open("wb") as file:
            file.writelines(packets(events_of_cpu, cpu, uuid, packet_events, refusals))
    if RECORDER_CPU not in streams:
        # A recorder tells something of itself in any case.
        times = np.concatenate([events.time_ns for events in (NOTHING, *streams.values())])
        first = int(times.min()) if len(times) else 0
        told = packet(b"", 0, RECORDER_CPU, uuid, (first, first), 0, 0)
        (directory / RECORDER_STREAM).write_bytes(told)
    if facts:
        (directory / "facts").mkdir(exist_ok=True)
        for name, text in facts.items():
            (directory / "facts" / name).write_text(text, errors="surrogateescape")


def as_events(
    point: str, columns: NDArray[np.void] | Columns, dtype: np.dtype[np.void], number: int
) -> NDArray[np.void]:
    if isinstance(columns, np.ndarray):
        found = columns.astype(dtype)
    else:
        values = {name: np.asarray(column) for name, column in columns.items()}
        count = max((value.size for value in values.values() if value.ndim), default=1)
        found = np.zeros(count, dtype)
        for name, value in values.items():
            found[name] = value
        for name in begins(point, dtype) - values.keys():
            found[name] = found["time_ns"]
    found["point"] = number
    return found


def with_fields(dtype: np.dtype[np.void], names: Collection[str]) -> np.dtype[np.void]:
    """An event of its own header and a few of its fields, where the metadata's rules put those."""
    fields: Mapping[str, Any] = dtype.fields or {}
    kept = [name for name in dtype.names or () if name in EVENT_HEADER or name in names]
    kinds, offsets, at = [fields[name][0] for name in kept], [], 0
    for kind in kinds:
        at = -(-at // kind.alignment) * kind.alignment
        offsets.append(at)
        at += kind.itemsize
    return np.dtype(
        {"names": kept, "formats": kinds, "offsets": offsets, "itemsize": layout.EVENT_BYTES}
    )


def begins(point: str, dtype: np.dtype[np.void]) -> frozenset[str]:
    """The fields that tell when what an event is of began; there is no event without."""
    return frozenset() if point in ZERO_TELLS else NEVER_ZERO & frozenset(dtype.names or ())


def by_stream(arrays: Mapping[str, NDArray[np.void]]) -> dict[int, Slice]:
    """The events of each stream, by CPU, in order of time."""
    found: dict[int, list[NDArray[np.void]]] = {}
    for name, events in arrays.items():
        if name in RECORDER_POINTS:
            found.setdefault(RECORDER_CPU, []).append(events)
            continue
        for cpu in distinct(events["cpu"]).tolist():
            found.setdefault(cpu, []).append(events[events["cpu"] == cpu])
    return {cpu: in_time_order(parts) for cpu, parts in found.items()}


def in_time_order(parts: Sequence[NDArray[np.void]]) -> Slice:
    slots = np.concatenate([raw(part) for part in parts])
    time_ns = np.concatenate([part["time_ns"] for part in parts])
    ends = np.concatenate([np.full(len(part), used_bytes(part.dtype), np.uint32) for part in parts])
    order = np.argsort(time_ns, kind="stable")
    return Slice(time_ns[order], ends[order], slots[order])


def raw(events: NDArray[np.void]) -> NDArray[np.uint8]:
    """The events' bytes; what no field covers is 0."""
    clean = np.zeros(len(events), events.dtype)
    for name in events.dtype.names or ():
        clean[name] = events[name]
    return clean.view(np.uint8).reshape(len(events), layout.EVENT_BYTES)


def used_bytes(dtype: np.dtype[Any]) -> int:
    return max(offset + kind.itemsize for kind, offset, *_ in (dtype.fields or {}).values())


def packets(
    events: Slice, cpu: int, uuid: bytes, packet_events: int, refusals: Sequence[tuple[int, int]]
) -> Iterator[bytes]:
    """Packets of at most ``packet_events``; refused events are told by the next to end."""
    total = len(events.time_ns)
    refused = list(refusals)
    discarded = 0
    if refused and not total:
        yield packet(
            b"",
            0,
            cpu,
            uuid,
            (refused[0][0], refused[-1][0]),
            0,
            sum(count for _, count in refused),
        )
    for sequence, at in enumerate(range(0, total, packet_events)):
        until = min(at + packet_events, total)
        begin_ns, end_ns = int(events.time_ns[at]), int(events.time_ns[until - 1])
        while refused and (refused[0][0] <= end_ns or until == total):
            time_ns, count = refused.pop(0)
            discarded += count
            end_ns = max(end_ns, time_ns)
        unused = layout.EVENT_BYTES - int(events.ends[until - 1])
        yield packet(
            events.slots[at:until].tobytes(),
            unused,
            cpu,
            uuid,
            (begin_ns, end_ns),
            sequence,
            discarded,
        )


def packet(
    body: bytes,
    unused: int,
    cpu: int,
    uuid: bytes,
    range_ns: tuple[int, int],
    sequence: int,
    discarded: int,
) -> bytes:
    """One packet; ``unused``: bytes at the end of its last event."""
    size_bits = HEAD_BITS + len(body) * 8
    content_bits = size_bits - unused * 8 if body else EMPTY_CONTENT_BITS
    head = HEAD.pack(
        MAGIC, uuid, 0, *range_ns, content_bits, size_bits, sequence, discarded, cpu, 0
    )
    data = bytearray(head.ljust(HEAD_BYTES, b"\0") + body)
    struct.pack_into("<I", data, CRC_AT, zlib.crc32(data))
    return bytes(data)


def block_fact(blocks: Iterable[BlockDevice]) -> str:
    """The text of the fact: a head, and a line each."""
    return "\n".join(["\t".join(BLOCK_COLUMNS), *map(block_line, blocks), ""])


def block_line(block: BlockDevice) -> str:
    values = (
        block.device_key,
        block.name,
        block.parent_key,
        block.scheduler,
        block.write_cache,
        block.fua,
        block.rotational,
        block.logical_block_bytes,
        block.backing,
        ",".join(map(str, block.lower_keys)),
        block.backing_inode,
        block.transport,
        ",".join(block.queue_limits),
        block.pci,
        ",".join(map(str, block.store_keys)),
        ";".join(map(_striping_text, block.striping)) or ABSENT,
    )
    return "\t".join(map(fact_text, values))


def _striping_text(striping: Striping) -> str:
    begins = (f"{key}+{begin}" for key, begin in striping.begins)
    part = f"@{striping.first}+{striping.length}" if striping.length else ""
    return ",".join((str(striping.chunk), str(striping.disks), *begins)) + part


def fact_text(value: str | int | bool | None) -> str:
    if value is None or value == "":
        return ABSENT
    return str(int(value)) if isinstance(value, bool) else str(value)
