# SPDX-License-Identifier: Apache-2.0
"""Who threads and tasks are is told anew now and then: that changes nothing of what is known."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.recording import open_recording
from iostrata.report import table
from iostrata.trace.layout import EVENT_BYTES
from iostrata.trace.packet import HEAD, HEAD_BYTES
from iostrata.trace.points import Points
from iostrata.trace.stream import RECORDER_CPU
from iostrata.trace.write import packet
from tests.analysis.test_beside_losses import packets, rows_of
from tests.test_recorded import NAMES, RECORDINGS

ROUNDS = 8

Slots = NDArray[np.uint8]
"""Events of 64 bytes each."""


def of_point(slots: Slots, point: Points) -> NDArray[np.void]:
    """A stream's events, as this point's are; those of others, too."""
    found: NDArray[np.void] = slots.view(point.dtype)[:, 0]
    return found


def told_again(told: NDArray[np.void], slots: Slots, resume: Points) -> tuple[list[int], Slots]:
    """Behind which of a stream's events a recorder would tell threads anew, and how: in each round
    those that run again there, as they were told of last."""
    runs = of_point(slots, resume)
    rows = np.flatnonzero(runs["point"] == resume.number)
    found: dict[tuple[int, int], NDArray[np.void]] = {}
    first_ns, last_ns = (int(runs["time_ns"][row]) for row in rows[[0, -1]])
    for since_ns in np.linspace(first_ns, last_ns, ROUNDS + 1)[1:-1].tolist():
        later = rows[runs["time_ns"][rows] >= since_ns]
        tids, first = np.unique(runs["subject_tid"][later], return_index=True)
        for tid, row in zip(tids.tolist(), later[first].tolist(), strict=True):
            mine = told[(told["subject_tid"] == tid) & (told["time_ns"] < runs["time_ns"][row])]
            last = mine[np.argsort(mine["time_ns"], kind="stable")][-1:].copy()
            # Of who was forgotten nothing is told until it is met.
            if len(last) and ("kind" not in (last.dtype.names or ()) or last["kind"][0]):
                last["tid"], last["cpu"] = tid, runs["cpu"][row]
                last["time_ns"] = runs["time_ns"][row]
                found[row, tid] = last
    anew = [row for row, _ in sorted(found)]
    parts = [found[key].view(np.uint8).reshape(1, EVENT_BYTES) for key in sorted(found)]
    return anew, np.concatenate([np.zeros((0, EVENT_BYTES), np.uint8), *parts])


def events_of(data: bytes) -> Slots:
    """Of all of a stream's packets."""
    parts = [data[begin + HEAD_BYTES : end] for begin, end in packets(bytearray(data))]
    return np.frombuffer(b"".join(parts), np.uint8).reshape(-1, EVENT_BYTES).copy()


def write(path: Path, slots: Slots, cpu: int) -> None:
    """All of a stream as one packet."""
    _, uuid, *_ = HEAD.unpack_from(path.read_bytes())
    times = slots.view("<u8")[:, 0]
    assert (np.diff(times.astype(np.int64)) >= 0).all()
    span_ns = (int(times[0]), int(times[-1]))
    path.write_bytes(packet(slots.tobytes(), 0, cpu, uuid, span_ns, 0, 0))


def tell_anew(machine: Path) -> int:
    """How many events it has more; the recorder has counted them."""
    (trace,) = open_recording(machine).traces()
    resume, more = trace.points["sched_resume"], [np.zeros(0, np.uint64)]
    streams = {path: events_of(path.read_bytes()) for path in sorted(machine.glob("cpu_*"))}
    every = np.concatenate(list(streams.values()))
    for path, slots in streams.items():
        if not len(slots) or resume.number not in of_point(slots, resume)["point"]:
            continue
        whole = slots
        for point in (trace.points["thread"], trace.points["task"]):
            told = of_point(every, point)
            told = told[told["point"] == point.number]
            rows, anew = told_again(told, whole, resume)
            whole = np.insert(whole, np.array(rows, np.int64) + 1, anew, axis=0)
            more.append(of_point(anew, point)["time_ns"])
        write(path, whole, int(path.name.removeprefix("cpu_")))
    times = np.sort(np.concatenate(more))
    own = events_of((machine / "recorder").read_bytes())
    counts = of_point(own, trace.points["recorder"])
    mine = np.flatnonzero(counts["point"] == trace.points["recorder"].number)
    by_then = np.searchsorted(times, counts["time_ns"][mine], side="right")
    counts["event_count"][mine] += by_then.astype(np.uint64)
    write(machine / "recorder", own, RECORDER_CPU)
    return len(times)


def shown(recording: Path) -> str:
    """The table, without what recording it cost."""
    text = table.render(summarise(analyse(open_recording(recording))), 80).plain
    return text.partition("\nown cost")[0]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_told_anew_changes_nothing(name: str, tmp_path: Path) -> None:
    whole, copy = RECORDINGS / name, tmp_path / name
    shutil.copytree(whole, copy)
    more = sum(tell_anew(path.parent) for path in sorted(copy.glob("*/metadata")))
    assert more
    assert shown(copy) == shown(whole)
    found, before = (analyse(open_recording(one)) for one in (copy, whole))
    assert rows_of(found) == rows_of(before)
    assert found.writes.names == before.writes.names
    for column, codes in before.writes.codes.items():
        assert np.array_equal(found.writes.codes[column], codes)
