# SPDX-License-Identifier: Apache-2.0
"""What ``import iostrata`` offers: a recording's directory in, columns out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from iostrata import analysis, model, recording

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Breakdown", "Recording", "open"]


def open(path: str | os.PathLike[str]) -> Recording:
    """A recording's directory, or one machine's in it, opened; its events are not read yet.

    Errors: RecordingError if it is neither, or its description cannot be read.
    """
    return Recording(**vars(recording.open_recording(Path(path))))


@dataclass(frozen=True)
class Recording(recording.Recording):
    """The traces of one or more machines.

    ``path``: of the directory. ``machines``: those whose traces are here, each with a ``name`` and
    a ``role``; ``absent``: those whose traces could not be fetched. ``command``, ``exit_status``,
    ``created`` (ISO 8601): None, None and empty where a recorder was run by hand.
    """

    def analyse(self, op: str = "sync", jobs: int = 1) -> Breakdown:
        """Where each synchronous write spent its time; reads all of the traces.

        ``op``: ``read``: where each read did instead, ``direct``: whatever has O_DIRECT; only of
        what was recorded with that --op. ``jobs``: of a large recording, parts are analysed by so
        many processes, forked from this one; the result is the same.

        Errors: RecordingError if one of them cannot be read, NothingToAnalyse if they hold no
        synchronous write (or read), or none that is whole, or were not asked for reads.
        """
        return Breakdown(**vars(analysis.analyse(self, model.Op(op), jobs)))


@dataclass(frozen=True)
class Breakdown(model.Breakdown):
    """Where every analysed write spent its time.

    ``writes``: columns, each int64 of shape (writes,); names are codes into tables of names.
    ``layers``: those that any write was in, in the order of the table, each with a ``name``,
    ``segment``, ``machine`` and ``meaning``. ``time_ns``: int64, shape (layers, writes).
    ``residual_ns``: int64, shape (writes,), signed: what no layer held. Law, to the nanosecond:
    ``time_ns.sum(0) + residual_ns == writes.latency_ns``. ``left_out``: writes that were not
    analysed, by reason. ``quality``: what the numbers rest on; ``quality.doubtful``: events were
    lost, the recording is damaged, too much could not be tied to any write, or the end of too many
    writes was not seen.
    ``behind``: who had what was waited for; ``write``, ``layer`` and ``who`` are rows, the last
    of ``behind.names``; of each layer that it tells of, a write's times there add up.
    ``op``: ``sync``; ``read``, ``direct``: then each "write" is a call or request that read, or
    one with O_DIRECT.
    """

    def to_arrow(self) -> pyarrow.Table:
        """One row a write, one column a layer: what `iostrata export --parquet` writes.

        Times are int64 ns, names dictionaries of strings. The columns of the layers and
        ``unattributed_ns`` add up to ``latency_ns``.

        Errors: MissingPackage if pyarrow is not installed, which ``iostrata[parquet]`` brings.
        """
        from iostrata.export import check_arrow, columns, table_of  # noqa: PLC0415

        check_arrow("to_arrow()")
        return table_of(columns(self))
