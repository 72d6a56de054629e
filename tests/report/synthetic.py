# SPDX-License-Identifier: Apache-2.0
"""Hand-made Summaries: every feature of a report, with numbers that are easy to follow."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from iostrata.model import (
    Cost,
    Figures,
    Layer,
    NotObserved,
    Quality,
    Row,
    SegmentRow,
    Summary,
    Table,
)

LAYERS = {
    "syscall": "OS",
    "fs": "OS",
    "lock": "OS",
    "journal.locking": "OS",
    "wakeup.interrupt": "OS",
    "wakeup.runqueue": "OS",
    "block.Q2G": "OS",
    "block.G2D": "OS",
    "device.data": "device",
    "device.flush": "device",
}


def figures(mean_ns: float, total_ns: float) -> Figures:
    tail = mean_ns * 1.25
    return Figures(mean_ns, mean_ns * 0.97, tail, mean_ns * 2, mean_ns * 30, mean_ns / total_ns)


def table(
    name: str,
    count: int,
    means_ns: Mapping[str, float],
    residual_ns: float = 41.5,
    machine: str = "local",
) -> Table:
    total_ns = sum(means_ns.values()) + residual_ns
    rows = tuple(
        Row(
            Layer(layer, segment, machine, f"time in {layer}"),
            figures(means_ns.get(layer, 0.0), total_ns),
        )
        for layer, segment in LAYERS.items()
    )
    segments = tuple(
        SegmentRow(
            segment,
            machine,
            figures(sum(means_ns.get(x, 0) for x, s in LAYERS.items() if s == segment), total_ns),
        )
        for segment in ("OS", "device")
    )
    return Table(
        name, count, figures(total_ns, total_ns), rows, figures(residual_ns, total_ns), segments
    )


FDATASYNC = {
    "syscall": 2345.678,
    "fs": 5100.25,
    "wakeup.interrupt": 1234.5,
    "wakeup.runqueue": 890.125,
    "block.Q2G": 1010.0,
    "block.G2D": 640.0,
    "device.data": 41234.567,
    "device.flush": 40111.1,
}
FSYNC = FDATASYNC | {"journal.locking": 120_000.0, "device.flush": 83_456.7}
O_DSYNC = {"syscall": 1200.5, "block.Q2G": 500.25, "device.data": 39_000.0}


def one_method() -> Summary:
    overall = table("all", 996, FDATASYNC)
    return Summary(
        overall=overall,
        grouped_by="method",
        groups=(overall,),
        left_out={},
        quality=Quality(
            ties={"key": 1992},
            cost=Cost(
                events=9960, duration_ns=1_000_000_000, bpf_ns=1_892_400, recorder_cpu_ns=8_000_000
            ),
        ),
        composition={
            "method": {"fdatasync": 996},
            "size": {"8k": 996},
            "process": {"fio": 996},
            "file_system": {"ext4": 996},
            "device": {"vda": 996},
        },
    )


def several_methods() -> Summary:
    return Summary(
        overall=table("all", 2987, FSYNC, residual_ns=-12.25),
        grouped_by="method",
        groups=(
            table("fdatasync", 996, FDATASYNC),
            table("fsync", 991, FSYNC, residual_ns=-160.0),
            table("O_DSYNC write", 500, O_DSYNC),
            table("O_SYNC write", 500, O_DSYNC | {"fs": 300.0}),
        ),
        left_out={"began before the recording": 2, "an event of it was lost": 11},
        quality=Quality(
            lost={"local:block_rq_issue": 7, "local:block_rq_complete": 12},
            damage=("local/cpu_1: packet 17: checksum wrong, 63 events not read",),
            plain_writes=120,
            ties={"key": 5000, "time": 3},
            not_observed=(
                NotObserved("block.G2I", "vda has no I/O scheduler", "block.G2D"),
                NotObserved("journal", "xfs has no point at the end of its sync", ""),
            ),
            cost=Cost(
                events=29870, duration_ns=2_500_000_000, bpf_ns=None, recorder_cpu_ns=30_000_000
            ),
        ),
        composition={
            "method": {"fdatasync": 996, "fsync": 991, "O_DSYNC write": 500, "O_SYNC write": 500},
            "size": {"8k": 2487, "16k": 500},
            "process": {"pg_test_fsync": 2987},
            "file_system": {"ext4": 2987},
            "device": {"vda": 2987},
        },
    )


def files() -> Summary:
    """More than are shown, of paths that are longer than there is room for."""
    names = [f"/var/lib/postgresql/15/main/pg_wal/{number:024X}" for number in range(21)]
    shares = [0.5, 0.3] + [0.2 / 20] * 20
    parts = [FDATASYNC, O_DSYNC] * 11
    return Summary(
        overall=table("all", 2200, FDATASYNC),
        grouped_by="file",
        groups=tuple(
            replace(table(name, 100, part, residual_ns=12.0), share=share)
            for name, part, share in zip(["vda:12", *names], parts, shares, strict=True)
        ),
        left_out={},
        quality=Quality(),
    )


SUMMARIES = {"one_method": one_method, "several_methods": several_methods, "files": files}
