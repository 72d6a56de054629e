# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share: each is declared once, here."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from iostrata.crew import cpus
from iostrata.errors import UsageError

# The recorder's own limits (bpf/record/options.c).
SHORTEST_S: Final = 1e-3
LONGEST_S: Final = 1e7
LEAST_KIB: Final = 4
MOST_KIB: Final = 1 << 20
MOST_JOBS: Final = 1024


class By(StrEnum):
    METHOD = "method"
    SIZE = "size"
    PROCESS = "process"
    FILE_SYSTEM = "file_system"
    DEVICE = "device"
    MACHINE = "machine"
    FILE = "file"
    DIRECTORY = "directory"
    THREAD = "thread"
    COMM = "comm"
    CGROUP = "cgroup"
    CONTAINER = "container"
    VM = "vm"
    VCPU_PLACEMENT = "vcpu_placement"
    SERVED = "served"


class Operations(StrEnum):
    SYNC = "sync"
    READ = "read"
    DIRECT = "direct"
    ALL = "all"


GROUPS: Final = (
    "method, size, process, thread, comm (of the thread), file, directory, file_system, device, "
    "cgroup, container, vm, vcpu_placement (of a guest's: on which CPU of its host), machine; "
    "reads also by served (from where)"
)

Command = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="COMMAND",
        help="What to run and record; beside --pid, --comm, --cgroup or --all, it only says how "
        "long what those choose is recorded.",
        show_default=False,
    ),
]
Recording = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="A recording, or one machine's directory in it."),
]
Pid = Annotated[
    list[int] | None,
    typer.Option("--pid", metavar="PID", help="Record this process and its children."),
]
Comm = Annotated[
    list[str] | None,
    typer.Option("--comm", metavar="NAME", help="Record processes or threads of this name."),
]
Cgroup = Annotated[
    list[str] | None,
    typer.Option("--cgroup", metavar="PATH", help="Record the processes of this cgroup (v2)."),
]
Device = Annotated[
    list[str] | None,
    typer.Option(
        "--device", metavar="DEV", help="Record only writes to this disk or partition: vda."
    ),
]
Everything = Annotated[bool, typer.Option("--all", help="Record every process of this machine.")]
Detail = Annotated[
    bool,
    typer.Option("--detail", help="More points in the block layer: finer rows, more cost."),
]
Why = Annotated[
    bool,
    typer.Option(
        "--why",
        help="In which function of the kernel each sleep was: explains what is unattributed.",
    ),
]
RecordOp = Annotated[
    Operations,
    typer.Option(
        "--op",
        help="Record besides synchronous writes: read or all, every read; direct, those with "
        "O_DIRECT.",
    ),
]
RunOp = Annotated[
    Operations,
    typer.Option(
        "--op",
        help="Record and show synchronous writes, reads, or what is read and written with O_DIRECT "
        "(direct); all: a table of each.",
    ),
]
Op = Annotated[
    Operations,
    typer.Option(
        "--op",
        help="Of synchronous writes, of reads, or of what is read and written with O_DIRECT "
        "(direct); all: a table of each.",
    ),
]


def _one_kind(op: Operations) -> Operations:
    if op is not Operations.ALL:
        return op
    raise UsageError(
        "--op all: this shows one kind at a time; replay and run print a table of each",
        "give --op sync, read or direct",
    )


OneOp = Annotated[
    Operations,
    typer.Option(
        "--op",
        callback=_one_kind,
        help="Of synchronous writes, of reads, or of what is read and written with O_DIRECT "
        "(direct).",
    ),
]
NoNames = Annotated[
    bool, typer.Option("--no-names", help="Record no paths of files: numbers stand for them.")
]
Compress = Annotated[
    bool,
    typer.Option(
        "--compress",
        help="Write events in frames of zstd: a seventh of the disk, more of the recorder's time.",
    ),
]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="NAME",
        show_default=False,
        help="Run the command as this user; else as the one who records, which is root under sudo.",
    ),
]
Ping = Annotated[
    bool,
    typer.Option(
        "--ping",
        help="Meanwhile an echo of 8 KB a second to each NFS server, for iostrata estimate.",
    ),
]
Stats = Annotated[
    bool,
    typer.Option(
        "--stats/--no-stats",
        help="Measure what the BPF programs cost (adds about 40 ns a point).",
    ),
]


def _duration(seconds: float) -> float:
    """What the recorder takes; NaN is in no range."""
    if seconds == 0 or SHORTEST_S <= seconds <= LONGEST_S:
        return seconds
    raise UsageError(
        f"--duration {seconds:g}: no time to record for",
        f"give seconds, {SHORTEST_S:g} to {LONGEST_S:g}, as in --duration 10; without it until "
        "Ctrl-C or the command's end",
    )


def _buffer(kib: int) -> int:
    if kib == 0 or (LEAST_KIB <= kib <= MOST_KIB and kib.bit_count() == 1):
        return kib
    raise UsageError(
        f"--buffer {kib}: a ring of {kib} KiB cannot be made",
        f"give a power of two, {LEAST_KIB} to {MOST_KIB}, as in --buffer 16384",
    )


Duration = Annotated[
    float,
    typer.Option(
        "--duration",
        metavar="SECONDS",
        callback=_duration,
        help="Stop after this time (0: never).",
        show_default=False,
    ),
]
Buffer = Annotated[
    int,
    typer.Option(
        "--buffer",
        metavar="KIB",
        callback=_buffer,
        show_default=False,
        help="Ring buffer of each CPU; larger loses less under load.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Keep the recording here.", show_default=False
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the temporary recording, and say where.")]
Repeat = Annotated[
    int,
    typer.Option(
        "--repeat",
        metavar="N",
        min=1,
        max=1000,
        show_default=False,
        help="So many recordings, one after the other: DIR/1, DIR/2, ... for compare.",
    ),
]
JsonOnly = Annotated[
    str,
    typer.Option(
        "--json",
        metavar="FILE",
        show_default=False,
        help="Write the result as JSON; - is standard output, without the table.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an older recording.")]
Grouping = Annotated[
    By | None,
    typer.Option(
        "--by",
        metavar="WHAT",
        help=f"Group the writes by {GROUPS}; without it by machine, if several have a workload, "
        "else by method.",
        show_default=False,
    ),
]
Tail = Annotated[
    bool,
    typer.Option("--tail", help="Also: what the slowest 1% spend more than the median ones."),
]
Who = Annotated[
    bool,
    typer.Option(
        "--who", help="Below each row: which processes had the CPU, disk or journal it waited for."
    ),
]
RecordWho = Annotated[
    bool,
    typer.Option("--who", help="Also which processes had the CPUs and journals waited for."),
]
Packets = Annotated[
    list[int] | None,
    typer.Option(
        "--packets",
        metavar="PORT",
        min=1,
        max=65535,
        show_default=False,
        help="Also the packets to and from this port of servers (NFS: 2049); repeatable.",
    ),
]
Histogram = Annotated[
    bool, typer.Option("--histogram", help="Also: how many writes took how long.")
]
OverTime = Annotated[
    bool,
    typer.Option("--over-time", help="Also: latency and the largest rows' shares, over time."),
]
Json = Annotated[
    str,
    typer.Option(
        "--json",
        metavar="FILE",
        show_default=False,
        help="Write the result as JSON; - is standard output, without the table.",
    ),
]
Csv = Annotated[
    str,
    typer.Option(
        "--csv",
        metavar="FILE",
        show_default=False,
        help="Write the result as CSV; - is standard output, without the table.",
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        metavar="N",
        min=0,
        max=MOST_JOBS,
        callback=lambda jobs: jobs or cpus(),
        show_default=False,
        help="Analyse a large recording by so many processes (0: one for each CPU, four at most).",
    ),
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache",
        help="Analyse anew, and keep nothing: of a large recording of your own, what it came to "
        "is kept beside it.",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress on standard error, only errors.")
]
