# SPDX-License-Identifier: Apache-2.0
"""Calls that write or synchronise files, of one program and its children, by bpftrace.

It knows nothing of iostrata: it has its own tree of threads, its own clock readings.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

WRITES: Final = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
SYNCS: Final = ("fsync", "fdatasync")
LIMIT: Final = 200_000
# No sync takes as long.
LONGEST_NS: Final = 2_000_000_000
NEVER: Final = 1 << 63
O_DSYNC: Final = 0o10000
O_SYNC: Final = 0o4010000


def _each(when: str, calls: tuple[str, ...]) -> str:
    return ",".join(f"tracepoint:syscalls:sys_{when}_{call}" for call in calls)


# What executes the file PROGRAM, and all that it starts; of regular files and directories. What it
# does after it has read the clock at an exit delays who reads it next: that is one entry of a map,
# and no output.
SCRIPT: Final = f"""
BEGIN {{ printf("began\\n"); }}
tracepoint:sched:sched_process_exec /str(args->filename) == "PROGRAM"/ {{ @in[tid] = 1; }}
tracepoint:sched:sched_process_fork /@in[args->parent_pid]/ {{ @in[args->child_pid] = 1; }}
tracepoint:sched:sched_process_exit {{ delete(@in[tid]); }}
{_each("enter", WRITES + SYNCS)} /@in[tid]/ {{
    $files = (uint64)((struct task_struct *)curtask)->files->fdt->fd;
    $file = (struct file *)*(uint64 *)($files + 8 * args->fd);
    $kind = $file->f_inode->i_mode & 0xf000;
    if ($kind == 0x8000 || $kind == 0x4000) {{
        @inode[tid] = $file->f_inode->i_ino;
        @flags[tid] = $file->f_flags;
        @begin[tid] = nsecs;
    }}
}}
tracepoint:syscalls:sys_enter_msync /@in[tid]/ {{
    @inode[tid] = 0;
    @flags[tid] = 0;
    @begin[tid] = nsecs;
}}
{_each("exit", (*WRITES, *SYNCS, "msync"))} /@begin[tid]/ {{
    @calls[probe, tid, @begin[tid], @inode[tid], @flags[tid], args->ret] = nsecs;
    delete(@begin[tid]);
}}
tracepoint:io_uring:io_uring_submit_req /@in[tid]/ {{ @asked[args->req] = nsecs; }}
tracepoint:io_uring:io_uring_complete /@asked[args->req]/ {{
    if (args->res > 0) {{ @requests[args->req, @asked[args->req]] = nsecs; }}
    delete(@asked[args->req]);
}}
END {{ clear(@in); clear(@begin); clear(@inode); clear(@flags); clear(@asked); }}
"""


@dataclass(frozen=True)
class Call:
    """``method``: how it makes durable, as iostrata calls it; empty: it does not."""

    method: str
    tid: int
    begin_ns: int
    end_ns: int
    inode: int

    @property
    def took_ns(self) -> int:
        return self.end_ns - self.begin_ns


@contextmanager
def watched(program: Path, output: Path) -> Iterator[None]:
    """What ``program`` calls goes to ``output`` meanwhile."""
    with output.open("w") as file:
        command = ["bpftrace", "-B", "line", "-e", SCRIPT.replace("PROGRAM", str(program))]
        watcher = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT,
            env={**os.environ, "BPFTRACE_MAP_KEYS_MAX": str(LIMIT)},
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 60
            while "began" not in output.read_text():
                if watcher.poll() is not None or time.monotonic() > deadline:
                    pytest.skip(f"bpftrace does not run here: {output.read_text()}")
                time.sleep(0.1)
            yield
            time.sleep(0.5)
        finally:
            watcher.terminate()
            try:
                watcher.wait(timeout=600)
            finally:
                watcher.kill()


def calls(output: Path) -> list[Call]:
    """In order of their ends."""
    entries = re.findall(r"^@calls\[tracepoint:syscalls:sys_exit_(\w+), (.*)\]: (\d+)$",
                         output.read_text(), re.MULTILINE)  # fmt: skip
    assert len(entries) < LIMIT, "bpftrace's map is full"
    found = []
    for name, words, end_ns in entries:
        tid, begin_ns, inode, flags, result = map(int, words.split(", "))
        if name not in WRITES or result > 0:
            found.append(Call(_method(name, flags), tid, begin_ns, int(end_ns), inode))
    return sorted(found, key=lambda call: call.end_ns)


def requests(output: Path) -> list[int]:
    """How long each of io_uring that transferred something took, ns."""
    entries = re.findall(r"^@requests\[.*, (\d+)\]: (\d+)$", output.read_text(), re.MULTILINE)
    assert len(entries) < LIMIT, "bpftrace's map is full"
    return [int(end_ns) - int(begin_ns) for begin_ns, end_ns in entries]


def _method(name: str, flags: int) -> str:
    if name not in WRITES:
        return name
    if flags & O_SYNC == O_SYNC:
        return "open_sync"
    return "open_datasync" if flags & O_DSYNC else ""


@dataclass(frozen=True)
class Durable:
    """A synchronous write: its last call, and the caller's own time in all of its calls."""

    last: Call
    latency_ns: int


def synchronous(found: list[Call]) -> list[Durable]:
    """A write belongs to its own thread's next sync, if it was not durable when that began.

    Durable it is from the first end of a sync, by anybody, that began after it.
    """
    written: dict[int, list[tuple[Call, int]]] = defaultdict(list)
    made = []
    for call in found:
        if not call.method:
            written[call.inode].append((call, NEVER))
            continue
        own_ns, left = call.took_ns, []
        for write, durable_ns in written[call.inode] if call.method in SYNCS else ():
            if write.end_ns > call.begin_ns:
                left.append((write, durable_ns))
            elif write.tid != call.tid:
                left.append((write, min(durable_ns, call.end_ns)))
            elif durable_ns > call.begin_ns:
                own_ns += write.took_ns
        if call.method in SYNCS:
            written[call.inode] = [each for each in left if each[1] > call.begin_ns - LONGEST_NS]
        made.append(Durable(call, own_ns))
    return made
