# SPDX-License-Identifier: Apache-2.0
"""Export: a Breakdown in, named columns out, one row a write: what CSV and Parquet hold.

``id`` (from 1, as `iostrata timeline --id`), ``machine``, ``begin_ns``, ``end_ns``
(CLOCK_MONOTONIC), ``realtime_ns`` (since 1970; only where clocks were sampled),
``latency_ns``, ``method``, ``process``, ``file_system``, ``device``, ``file``, ``tid``,
``tgid``, ``size_bytes`` and ``durable_writes`` (what it made durable, by whomever it was
written), ``offset_bytes`` (-1: none), ``inode``, ``calls`` (the caller's own), ``served`` (of
reads only: from where), then one column a layer (``device_data_ns``; of several machines
``server_device_data_ns``) and ``unattributed_ns``: together ``latency_ns``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints
from iostrata.model import Breakdown


@dataclass(frozen=True, eq=False)
class Column:
    """``values``: int64; with ``names``, they are codes into these."""

    name: str
    values: NDArray[np.integer]
    names: tuple[str, ...] = ()


def columns(breakdown: Breakdown, ids: Ints | None = None) -> Iterator[Column]:
    """In the order of the file. ``ids``: of the writes, where they are not a recording's all."""
    writes = breakdown.writes
    count = len(writes)
    yield Column("id", np.arange(1, count + 1) if ids is None else ids)
    yield Column("machine", writes.codes["machine"], writes.machines)
    yield Column("begin_ns", writes.begin_ns)
    yield Column("end_ns", writes.end_ns)
    if writes.realtime_ns is not None:
        yield Column("realtime_ns", writes.realtime_ns)
    yield Column("latency_ns", writes.latency_ns)
    for name in ("method", "process", "file_system", "device", "file"):
        yield Column(name, writes.codes[name], writes.names[name])
    yield Column("tid", writes.tid)
    yield Column("tgid", writes.tgid)
    yield Column("size_bytes", writes.size_bytes)
    yield Column("durable_writes", writes.durable_writes)
    yield Column("offset_bytes", writes.offset_bytes)
    yield Column("inode", writes.inode)
    yield Column("calls", writes.pieces)
    if "served" in writes.codes:
        yield Column("served", writes.codes["served"], writes.names["served"])
    for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True):
        name = layer.name.replace(".", "_").replace("/", "_")
        yield Column(f"{name}_ns", times)
    yield Column("unattributed_ns", breakdown.residual_ns)
