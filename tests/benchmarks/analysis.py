# SPDX-License-Identifier: Apache-2.0
"""Speed and memory of the analysis, from files to table: events/s on one core, peak memory.

    python -m tests.benchmarks.analysis [EVENTS | RECORDING ...]

Makes recordings of fdatasync'd 8 kB writes by four threads (14 events a write),
then analyses each in a process of its own, by itself and with others to help it.

What is made up is the same everywhere, but none of it is in anybody's way. In what was recorded,
threads wait for each other's requests, for CPUs and commits, and are told who had those; some
writes are slow, in episodes. An event of a real recording takes twice as long, and what is slow
only there is seen by no other measurement: name one, too.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.crew import cpus
from iostrata.memory import keep_freed
from iostrata.recording import open_recording
from iostrata.trace.packet import CRC_AT, HEAD, HEAD_BYTES, checksum
from tests.builder import TraceBuilder
from tests.synthetic import CALLS, FLUSH_OP, NO_SECTOR, PREFLUSH, SYNC, WRITE, device

THREADS = 4
EVENTS_A_WRITE = 14
PERIOD_NS = 110_000
PART_WRITES = 100_000
SIZE_BITS, SEQUENCE = 6, 7
"""Words of a packet's head."""
DISK = device(253, 0)
EVERYONE = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def generate(path: Path, events: int) -> None:
    """A recording of about so many events, made part by part: of any size, in little memory."""
    writes = events // EVENTS_A_WRITE // THREADS
    packets: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        for first in range(0, max(writes, 1), PART_WRITES):
            part = Path(directory) / str(first)
            _part(first, min(PART_WRITES, writes - first)).write(part)
            if not first:
                others = shutil.ignore_patterns("cpu_*")
                shutil.copytree(part, path, ignore=others, dirs_exist_ok=True)
            for stream in part.glob("cpu_*"):
                packets[stream.name] += _append(path / stream.name, stream, packets[stream.name])
            shutil.rmtree(part)


def _append(target: Path, part: Path, number: int) -> int:
    """The packets of a part's stream, numbered on; how many they are."""
    count = 0
    with part.open("rb") as source, target.open("ab") as file:
        while head := bytearray(source.read(HEAD_BYTES)):
            words = list(HEAD.unpack_from(head))
            words[SEQUENCE] = number + count
            HEAD.pack_into(head, 0, *words)
            data = bytes(head) + source.read(words[SIZE_BITS] // 8 - HEAD_BYTES)
            crc = checksum(data, 0, len(data)).to_bytes(4, "little")
            file.write(data[:CRC_AT] + crc + data[CRC_AT + len(crc) :])
            count += 1
    return count


def _part(first: int, writes: int) -> TraceBuilder:
    builder = TraceBuilder(packet_events=4000)
    builder.mount(DISK, "/", "ext4").block(DISK, "vda", scheduler="mq-deadline")
    jitter = np.random.default_rng(1 + first)
    for thread in range(THREADS):
        tid, cpu = 100 + thread, thread
        if not first:
            builder.add("thread", time_ns=1, cpu=cpu, tid=tid, tgid=tid, subject_tid=tid, kind=1)
        numbers = first + np.arange(writes)
        start = 1_000 + thread * 25_000 + numbers * PERIOD_NS
        device_ns = jitter.integers(20_000, 30_000, writes)
        flush_ns = jitter.integers(20_000, 30_000, writes)
        queued, issued = start + 3_000, start + 4_000
        done = issued + device_ns
        on = done + 2_500
        returned = on + 1_500
        synced = returned + 500
        bio = 0x8880_0000_0000 + thread * 0x1000 + (numbers % 7) * 256
        rq = bio + 128
        place: dict[str, Any] = {"dev": DISK, "sector": numbers * 16 + thread * 2**32,
                 "size_bytes": 8192, "flags": WRITE | SYNC}  # fmt: skip
        keys: dict[str, Any] = {"request_key": rq, "bio_key": bio}
        own: dict[str, Any] = {"cpu": cpu, "tid": tid}
        file: dict[str, Any] = {"inode": 12 + thread, "dev": DISK, "tgid": tid}
        builder.extend("block_bio_queue", time_ns=queued, **own, bio_key=bio, **place)
        builder.extend("block_rq_insert", time_ns=queued + 400, **own, **keys, **place)
        builder.extend("block_rq_issue", time_ns=issued, **own, **keys, **place)
        builder.extend("block_rq_complete", time_ns=done, cpu=cpu, tid=0, **keys, **place)
        builder.extend("sched_resume", time_ns=on, **own, off_ns=issued + 1_000,
                       wake_ns=done + 1_000, state=2, subject_tid=tid)  # fmt: skip
        builder.extend("syscall", time_ns=returned, **own, enter_ns=start, size_bytes=8192,
                       result=8192, call=CALLS["pwrite64"], **file)  # fmt: skip
        queued, issued = synced + 2_000, synced + 5_000
        flushed = issued + flush_ns
        complete = flushed + 900
        on = complete + 2_000
        empty: dict[str, Any] = {"dev": DISK, "size_bytes": 0}
        builder.extend("block_bio_queue", time_ns=queued, **own, bio_key=bio, sector=0,
                       flags=WRITE | SYNC | PREFLUSH, **empty)  # fmt: skip
        worker: dict[str, Any] = {
            "request_key": 7777 + thread,
            "sector": np.uint64(NO_SECTOR),
            "flags": FLUSH_OP,
        }
        builder.extend("block_rq_issue", time_ns=issued, cpu=cpu, tid=77, **worker, **empty)
        builder.extend("block_rq_complete", time_ns=flushed, cpu=cpu, tid=0, **worker, **empty)
        builder.extend("block_rq_complete", time_ns=complete, cpu=cpu, tid=0, **keys, **empty)
        builder.extend("sched_resume", time_ns=on, **own, off_ns=queued + 1_000,
                       wake_ns=complete + 1_000, state=2, subject_tid=tid)  # fmt: skip
        builder.extend("ext4_sync_file", time_ns=on + 800, **own, enter_ns=synced + 900,
                       inode=12 + thread, dev=DISK, datasync=1)  # fmt: skip
        builder.extend("syscall", time_ns=on + 1_500, **own, enter_ns=synced,
                       call=CALLS["fdatasync"], **file)  # fmt: skip
    return builder


def measure(path: Path, events: int, jobs: int) -> None:
    """Analyses one recording in this process and prints what it took.

    ``events``: for how many it was made; 0: it was recorded. Peak memory is the largest process's;
    what it shares with the others is in that.
    """
    keep_freed()
    begin, cpu = time.perf_counter(), _cpu_s()
    recording = open_recording(path)
    breakdown = analyse(recording, jobs=jobs)
    summary = summarise(breakdown, jobs=jobs)
    wall, cpu = time.perf_counter() - begin, _cpu_s() - cpu
    peak = max(resource.getrusage(who).ru_maxrss for who in EVERYONE) / 2**20
    if events:
        assert summary.overall.count == events // EVENTS_A_WRITE // THREADS * THREADS
        assert summary.overall.residual.max_ns == 0
    else:
        points = (trace.points.values() for trace in recording.traces())
        events = sum(map(len, chain.from_iterable(points)))
    print(f"{events:>12,} events, {jobs} at once {events / cpu / 1e6:7.2f} M events/s of CPU "
          f"{events / wall / 1e6:7.2f} M/s {wall:7.2f} s wall {peak:6.2f} GiB peak")  # fmt: skip


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in EVERYONE]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    if sys.argv[1:2] == ["--generate"]:
        generate(Path(sys.argv[2]), int(sys.argv[3]))
        return
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
        return
    for word in sys.argv[1:] or ["1_000_000", "10_000_000"]:
        if not word.replace("_", "").isdecimal():
            _measured(word, 0)
            continue
        with tempfile.TemporaryDirectory() as directory:
            path = str(Path(directory) / "machine")
            _run("--generate", path, word)
            _measured(path, int(word))


def _measured(path: str, events: int) -> None:
    for jobs in (1, cpus()):
        _run("--measure", path, str(events), str(jobs))


def _run(*words: str) -> None:
    """A process of its own: nor must the generator's memory count."""
    one_core = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", __spec__.name, *words]
    subprocess.run(command, check=True, env=os.environ | one_core)


if __name__ == "__main__":
    main()
