# SPDX-License-Identifier: Apache-2.0
"""What the numbers rest on: losses, layers not observed, cost."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np

from iostrata.analysis.carried import carried
from iostrata.analysis.coarser import coarser
from iostrata.analysis.connections import troubled_connections
from iostrata.analysis.copies import doubtful_copies
from iostrata.analysis.copying import copying
from iostrata.analysis.disk_syncs import untold_syncs
from iostrata.analysis.exchanged import exchanged
from iostrata.analysis.given_back import given_back
from iostrata.analysis.halts import halts, served_by_the_stopped, stopped_daemons, stops
from iostrata.analysis.left_out import OF_COMPAT, OF_SYNC, UNDECIDED, bounds_of, unseen_asks
from iostrata.analysis.limits import held_back, limits, untold_rests
from iostrata.analysis.networks import asks_a_network, network_disks, packets_in_vain, virtual_cards
from iostrata.analysis.outlived import outlived
from iostrata.analysis.path import Path, carriers_of
from iostrata.analysis.placed import placed
from iostrata.analysis.polling import polling_threads
from iostrata.analysis.queues import deep_queues
from iostrata.analysis.stolen import stolen
from iostrata.analysis.suspended import suspended
from iostrata.analysis.unended import unended
from iostrata.analysis.who import whose_is_untold
from iostrata.columns import ascend, columns_of, distinct, integers
from iostrata.foreign import kept, shown
from iostrata.layers import BEHIND_WORKERS, OBSERVERS, PROGRAMS, ROWS, VISIBILITY
from iostrata.model import Cost, NotObserved, Quality
from iostrata.stitch import O_DSYNC
from iostrata.trace import IN_MEMORY, Trace, by_script, untold_subvolumes
from iostrata.trace.layout import (
    CALL_FSYNC,
    CALL_MSYNC,
    UNSEEN_COMPAT,
    UNSEEN_DISCARDS,
    UNSEEN_MAPPINGS,
    UNSEEN_RESTS,
    UNSEEN_SYNC,
    UNSEEN_UNDECIDED,
)
from iostrata.units import duration, few

# What these write to is another file system, whose sync is seen; or nobody mounted it.
NO_SYNC_OF_ITS_OWN: Final = frozenset({"overlay", "unknown", "ext2", "ext3"})
SYNCS: Final = (*next(row.points for row in ROWS if row.name == "fs"), "nfs_call")
MINOR_BITS: Final = 20
UNSURE_NS: Final = 1_000_000_000
"""CPU time is not asked for at the instant that is told."""
LOOP_MAJOR: Final = 7
UNTRUE_COST: Final = "recorder: the CPU time that it tells cannot be: what it took is not known"
MOST_PASSING: Final = 8
"""Disks that are told of one by one."""
ON_DEVICES: Final = frozenset({"btrfs"})
"""File systems that lie on devices, of those that have a number which no device has."""
KERNEL_ERRORS: Final = range(-4095, 0)
WITHOUT_CALLS: Final = {
    prefix: each.without for each in VISIBILITY if each.calls for prefix in each.prefixes
}
# What may be in a row that holds less of the time is not worth a line.
OF_NOTE: Final = 0.02


def _died(path: Path) -> Iterator[str]:
    """A line for each machine whose trace ends before what it was asked for."""
    for link in path.links:
        _, last = bounds_of(link)
        row = unseen_asks(link)
        row = row[link.asks.end_ns[row] > last]
        if len(row):
            after = duration(int(link.asks.end_ns[row].max() - last))
            yield (
                f"{link.lower.trace.machine}: its trace ends {after} before the last that "
                f"{link.upper.machine} asked of it: {len(row)} of {len(link.asks)} are not observed"
            )


def _began_late(path: Path) -> Iterator[NotObserved]:
    """A line for each machine whose trace begins after what it was asked for first."""
    for link in path.links:
        first, _ = bounds_of(link)
        row = unseen_asks(link)
        row = row[link.asks.begin_ns[row] < first]
        if len(row):
            after = duration(int(first - link.asks.begin_ns[row].min()))
            what = (
                f"its trace begins {after} after the first that {link.upper.machine} asked of it: "
                f"{len(row)} of {len(link.asks)} are not observed"
            )
            yield NotObserved(link.lower.trace.machine, what, "")


def quality_of(
    path: Path,
    plain_writes: int,
    ties: Mapping[str, int],
    shares: Mapping[tuple[str, str], float] = MappingProxyType({}),
) -> Quality:
    """The quality lines of a path's recordings. ``shares``: of the time, by machine and row."""
    traces = [member.trace for member in path.members]
    several = len(traces) > 1
    gaps = [(trace.machine, gap) for trace in traces for gap in _not_observed(trace, path, shares)]
    gaps += [
        (link.lower.trace.machine, gap)
        for link in path.links
        for gap in link.hop.not_observed(link)
    ]
    if any(hop.reads for hop in path.graph.hops):
        gaps += [
            (link.lower.trace.machine, gap)
            for link in path.links
            for gap in link.hop.reads_not_followed(link)
        ]
        gaps += [
            (trace.machine, gap)
            for trace in traces
            for hop in path.graph.hops
            for gap in hop.reads_untold(trace)
        ]
    gaps += [
        (trace.machine, gap)
        for trace in traces
        for hop in path.graph.hops
        for gap in hop.not_recorded(
            trace, [link for link in path.links if link.hop is hop and link.upper is trace]
        )
        # Others' operations, of which no write is.
        if not shares or shares.get((trace.machine, gap.merged_into))
    ]
    gaps += [
        (trace.machine, gap)
        for trace in traces
        for hop in path.graph.hops
        for gap in hop.untold(trace)
    ]
    gaps += [
        (link.lower.trace.machine, gap)
        for link in path.links
        if shares
        for gap in link.hop.limits(link)
        if shares.get((link.lower.trace.machine, gap.merged_into), 0) >= OF_NOTE
    ]
    all_traces = [*traces, *path.carriers]
    # What stands apart may do so as most of its events are not there.
    named = {trace.machine for trace in all_traces}
    told = [*all_traces, *(each for each in path.graph.machines if each.machine not in named)]
    return Quality(
        lost={
            f"{trace.machine}:{point}": n
            for trace in told
            for point, n in trace.lost_by_point.items()
            if n
        },
        damage=(
            *(
                f"{trace.machine}: {line}" if len(told) > 1 else line
                for trace in told
                for line in (*trace.damage, *[UNTRUE_COST] * _cost_cannot_be(trace))
            ),
            *path.interrupted,
            *_died(path),
        ),
        plain_writes=plain_writes,
        ties=ties,
        not_observed=(
            *(_merged(gaps) if several else (gap for _, gap in gaps)),
            *_began_late(path),
        ),
        cost=_together([_cost(trace) for trace in all_traces]),
        crossings=path.crossings,
        apart=path.apart,
        virtual=tuple(_virtual(path)),
        connections=(
            *(line for link in path.links for line in carried(link)),
            *_of_connections(path),
        ),
    )


def _of_connections(path: Path) -> Iterator[str]:
    for member in path.members:
        # What serves a guest is told with that.
        guests = [
            link.agents
            for link in path.links
            if link.lower.trace is member.trace and link.hop.way == "hypervisor"
        ]
        stopped = stopped_daemons(member.trace, np.concatenate([np.zeros(0, np.int64), *guests]))
        for lines in (troubled_connections(member.trace), given_back(member.trace), stopped):
            where = f"{member.trace.machine}: " if path.several else ""
            yield from (where + line for line in lines)


def _virtual(path: Path) -> Iterator[str]:
    """The disks asked for anything whose names tell that no device is behind them, but a machine,
    the network cards of who asks or answers by a network, and CPU time that others had.

    A guest's disks need no telling: its rows say so.
    """
    networked = {
        trace.machine
        for link in path.links
        for trace in (link.upper, link.lower.trace)
        if link.hop.way == "network" and link.upper is not link.lower.trace
    }
    # Of several links to one host, the first is that of its disks.
    hosts = {link.upper.machine: link for link in reversed(path.links) if len(link.monitors)}
    hosted = {link.upper.machine for link in path.links if link.ways and link.ways.hosted}
    for member in path.members:
        for hop in path.graph.hops:
            followed = {link.upper.machine for link in path.links if link.hop is hop}
            if member.role != hop.asker and member.trace.machine not in followed:
                where = f"{member.trace.machine}: " if path.several else ""
                yield from (where + disk for disk in hop.disks(member.trace))
        where = f"{member.trace.machine}: " if path.several else ""
        yield from (where + disk for disk in network_disks(member.trace))
        unknown = member.trace.machine not in hosted
        if unknown and (member.trace.machine in networked or asks_a_network(member.trace)):
            yield from (where + card for card in virtual_cards(member.trace))
        link = hosts.get(member.trace.machine)
        yield from (where + line for line in stolen(member.trace, link))
        if link:
            told = (*placed(link), *halts(link), *stops(link), *copying(link))
            yield from (where + line for line in told)
        for link in path.links:
            if link.upper is member.trace and link.hop.way == "hypervisor":
                yield from (where + line for line in served_by_the_stopped(link))


def _type(file_system: str) -> str:
    """Without what is behind it in user space: "fuse.sshfs"."""
    return file_system.partition(".")[0]


def _unknown_file_systems(trace: Trace) -> Iterator[NotObserved]:
    """The file systems on which something was made durable, and that have no points here."""
    # Of what was not in the kernel, as in modules without BTF (before Linux 5.11), nothing is told.
    told = {kept(program).partition("_")[0] for program in errors_of(trace)}
    there = (each.mounts for each in PROGRAMS if not told or each.prefix in told)
    known = frozenset().union(*there) | NO_SYNC_OF_ITS_OWN | IN_MEMORY
    if not _strange(trace, trace.points["syscall"].values("dev"), known):
        # Mostly so, and then each call need not be looked at.
        return
    calls = columns_of(trace.points["syscall"], "dev", "call", "open_flags")
    syncs = (calls["call"] >= CALL_FSYNC) & (calls["call"] <= CALL_MSYNC)
    syncs |= (calls["call"] < CALL_FSYNC) & ((calls["open_flags"] & O_DSYNC) != 0)
    keys = distinct(calls["dev"][syncs]).tolist()
    for kind in _strange(trace, keys, known):
        yield NotObserved("fs", f"no point of {kind} is recorded", "syscall and unattributed")


def _strange(trace: Trace, keys: Collection[int], known: frozenset[str]) -> list[str]:
    """What no point is of, of all that some devices have on them."""
    there = (kind for key in keys for kind in trace.facts.file_systems(key))
    kinds = sorted({_type(kind) for kind in there} - known)
    return kinds + [f"what is mounted at {name}" for name in _unknown_mounts(trace, keys)]


def _files_taken_for_one(trace: Trace) -> Iterator[NotObserved]:
    """Where a kernel does not tell the subvolume, or an older recorder did not."""
    keys = trace.points["syscall"].values("dev")
    if not any(trace.facts.file_system(key) == "btrfs" for key in keys):
        return
    calls = columns_of(trace.points["syscall"], "dev", "inode")
    if untold_subvolumes(trace.facts, calls["dev"], calls["inode"]).any():
        what = "files of one number in several subvolumes are taken for one file"
        yield NotObserved("btrfs subvolumes", what, "")


def _files_of_loops(trace: Trace) -> Iterator[NotObserved]:
    """Loop devices of whose file the recorder knows no disk, but which may well be on one, or whose
    file is on a file system that lies on no device itself: on another machine, in memory, a
    daemon's, or on another file system (overlay).

    stat(2) has a number for each subvolume of a btrfs that is no mount's. And what was set up and
    taken down in between, or anew with another file, has none that was seen.
    """
    facts = trace.facts
    for key, block in sorted(facts.blocks.items()):
        known = key >> MINOR_BITS != LOOP_MAJOR
        what = "which file it was, and so on which disk, is not known for all of the time"
        if block.backing:
            numbered = [lower for lower in block.lower_keys if not lower >> MINOR_BITS]
            kinds = {_type(facts.file_system(lower)) for lower in numbered}
            known = bool(block.lower_keys) and kinds <= ON_DEVICES
            what = "on which disk its file is (as one on btrfs) is not known"
            for kind in sorted(kinds - ON_DEVICES - {"unknown"}):
                what = f"its file is on {kind}, which is not looked into for it"
        if not known and key in trace.points["block_rq_issue"].values("dev"):
            # The disk of the file that it was given meanwhile was not watched for it.
            its = "device" if block.backing else "device, wakeup.interrupt and unattributed"
            yield NotObserved(f"below {block.name}", what, its)


def _passing_disks(trace: Trace) -> Iterator[NotObserved]:
    """Disks that neither the recording's begin nor its end found.

    Device mapper's may lie on others, which tell of the same requests again. One controller's way
    to an NVMe disk is told by itself.
    """
    known = trace.facts.blocks.keys() | trace.points["nvme_complete_rq"].values("dev")
    seen = trace.points["block_rq_issue"].values("dev") if trace.facts.blocks else set()
    names = [trace.facts.device_name(key) for key in sorted(seen - known - {0})]
    what = "came and went meanwhile: what {} on, if anything, is not known"
    if len(names) > MOST_PASSING:
        yield NotObserved(f"below {few(names)}", f"they {what.format('they lie')}", "device")
        return
    for name in names:
        yield NotObserved(f"below {name}", f"it {what.format('it lies')}", "device")


def _moved_disks(trace: Trace) -> Iterator[NotObserved]:
    """Device mapper's that were put on something else, where not all bios say what they are clones
    of."""
    moved = {
        key: block
        for key, block in sorted(trace.facts.blocks.items())
        if block.moved and key >> MINOR_BITS != LOOP_MAJOR
    }
    if not moved:
        return
    handed = columns_of(trace.points["block_bio_remap"], "old_dev")["old_dev"]
    bios = columns_of(trace.points["block_bio_queue"], "dev", "size_bytes")
    for key, block in moved.items():
        count = np.count_nonzero((bios["dev"] == key) & (bios["size_bytes"] > 0))
        if count > np.count_nonzero(handed == key):
            what = (
                "it lay on one thing and then on another: what is tied to it by time may be of one "
                "that it was not on then"
            )
            yield NotObserved(f"below {block.name}", what, "")


def _disks_of_one_number(trace: Trace) -> Iterator[NotObserved]:
    shared = {key for key, block in trace.facts.blocks.items() if block.shared}
    seen = shared and trace.points["block_bio_queue"].values("dev")
    for key in sorted(shared & seen):
        what = "its number was another one's later: both are told of as one"
        yield NotObserved(f"which disk is {trace.facts.device_name(key)}", what, "")


def _unknown_mounts(trace: Trace, keys: Iterable[int]) -> Iterator[str]:
    """What was mounted later, or where the recorder does not see it, and is on no disk."""
    for key in keys if trace.facts.mounts else ():
        anonymous = key and not key >> MINOR_BITS
        if not anonymous or trace.facts.file_systems(key):
            continue
        if not any(key in trace.points[point].values("dev") for point in SYNCS):
            yield trace.facts.device_name(key)


def _is_split(path: Path, trace: Trace) -> bool:
    """Whether packets tell the parts of a way to, from or through a machine."""
    return any(
        trace.machine in (link.upper.machine, link.lower.trace.machine, *carriers_of([link]))
        for link in path.links
        if link.ways
    )


def _not_observed(
    trace: Trace, path: Path, shares: Mapping[tuple[str, str], float]
) -> Iterator[NotObserved]:
    yield from suspended(trace)
    yield from unended(trace)
    yield from outlived(trace)
    yield from exchanged(trace)
    yield from _not_attached(trace, path)
    yield from _unknown_events(trace)
    yield from _unknown_file_systems(trace)
    yield from _files_taken_for_one(trace)
    yield from _files_of_loops(trace)
    yield from _passing_disks(trace)
    yield from _moved_disks(trace)
    yield from _disks_of_one_number(trace)
    yield from _not_told(trace)
    yield from doubtful_copies(trace)
    yield from coarser(trace)
    yield from packets_in_vain(trace, errors_of(trace), split=_is_split(path, trace))
    detail = bool(trace.env.get("detail"))
    detailed = errors_of(trace).get(b"block_getrq", -1) == 0
    yield from limits(trace, shares, OF_NOTE, detailed=detailed)
    yield from held_back(trace, shares, OF_NOTE)
    parts = _unseen_so_far(trace).get(UNSEEN_RESTS, (0, 0))[0]
    yield from untold_rests(trace, shares, OF_NOTE, parts)
    yield from untold_syncs(trace, shares, OF_NOTE)
    yield from (gap for gap, share in whose_is_untold(trace, shares) if share >= OF_NOTE)
    if shares.get((trace.machine, BEHIND_WORKERS), 0) >= OF_NOTE:
        yield from deep_queues(trace)
    for observer in OBSERVERS:
        asked = observer.detail is None or (observer.detail == detail and not by_script(trace.env))
        given = not observer.given or any(len(trace.points[point]) for point in observer.given)
        row = (trace.machine, observer.merged_into)
        asked &= not observer.held or shares.get(row, 0) >= OF_NOTE
        if asked and given and not any(len(trace.points[point]) for point in observer.points):
            yield NotObserved(observer.name, observer.reason, observer.merged_into)


def _unseen_so_far(trace: Trace) -> dict[int, tuple[int, int]]:
    """By kind: how often, and the device that it was for last; a kind's last event tells of all."""
    points = trace.points["unseen"]
    kinds, counts = integers(points["kind"]).tolist(), integers(points["count"]).tolist()
    devices = integers(points["dev"]).tolist() if "dev" in points.fields else [0] * len(points)
    return dict(zip(kinds, zip(counts, devices, strict=True), strict=True))


def _not_told(trace: Trace) -> Iterator[NotObserved]:
    """What programs did that no point tells of."""
    unseen = _unseen_so_far(trace)
    if began := unseen.get(UNSEEN_COMPAT, (0, 0))[0]:
        what = f"the first ones of {began} programs, until their probes were attached"
        yield NotObserved(OF_COMPAT, what, "")
    if UNSEEN_UNDECIDED in unseen:
        count, last = unseen[UNSEEN_UNDECIDED]
        where = f"{trace.facts.file_system_name(last)} at {trace.facts.device_name(last)}"
        what = f"{count} left out, as their disk is not known{f'; last {where}' if last else ''}"
        yield NotObserved(UNDECIDED, what, "")
    if UNSEEN_SYNC in unseen:
        what = f"{unseen[UNSEEN_SYNC][0]} left out, as they are for all disks (--device)"
        yield NotObserved(OF_SYNC, what, "")
    if calls := unseen.get(UNSEEN_MAPPINGS, (0, 0))[0]:
        what = f"of {calls} calls over several mappings, only the first one's file is known"
        yield NotObserved("msync", what, "")
    if calls := unseen.get(UNSEEN_DISCARDS, (0, 0))[0]:
        what = f"{calls} requests to disks of Ceph by its library: only writes and flushes are"
        yield NotObserved("discards, writes of zeros and the like", what, "")
    submitted = integers(trace.points["io_uring_submit_req"]["tid"])
    polled = int(np.isin(submitted, polling_threads(trace)).sum())
    if polled:
        what = f"how long {polled} requests waited for the kernel's thread to take them (SQPOLL)"
        yield NotObserved("io_uring", f"{what}: it is in no latency", "")


def errors_of(trace: Trace) -> dict[bytes, int]:
    """Why programs were not attached, 0: they were. One may be later: the last word counts."""
    probes = trace.points["probe"]
    return dict(zip(probes["program"].tolist(), probes["error"].tolist(), strict=True))


def _not_attached(trace: Trace, path: Path) -> Iterator[NotObserved]:
    """The programs that were refused, by layer; not those that had nothing to see here."""
    idle = _idle_layers(trace, path)
    refused: dict[tuple[str, int], list[str]] = {}
    for program, error in errors_of(trace).items():
        name = shown(bytes(program))
        layer = name.partition("_")[0]
        if error and layer not in idle:
            refused.setdefault((layer, error), []).append(name)
    for (layer, error), programs in refused.items():
        which = "its program" if len(programs) == 1 else "their programs"
        reason = os.strerror(-error) if error in KERNEL_ERRORS else f"error {error}"
        why, lost = f"{which} did not attach ({reason})", WITHOUT_CALLS.get(layer)
        why, into = (f"{why}: {lost}", "") if lost else (why, "the layers around it")
        yield NotObserved(f"{layer}: {', '.join(programs)}", why, into)


def _unknown_events(trace: Trace) -> Iterator[NotObserved]:
    """Of another version's points; or metadata is not what was recorded."""
    if trace.unknown:
        what = f"this version knows nothing of their events ({sum(trace.unknown.values())})"
        yield NotObserved(few([*map(shown, trace.unknown)]), what, "the layers around it")


def _idle_layers(trace: Trace, path: Path) -> set[str]:
    """Layers of programs that this machine had no use for.

    Virtqueues split the way to a host that was recorded; without one there is no such way.
    """
    mounted = {_type(mount.file_system) for mount in trace.facts.mounts}
    mounted |= {met.kind for there in trace.facts.met.values() for met in there}
    disks = {block.name for block in trace.facts.blocks.values()}
    kinds = integers(trace.points["thread"]["kind"])
    hops = {each.hop for each in path.crossings if each.upper == trace.machine}
    served = {each.hop for each in path.crossings if each.lower == trace.machine}
    mapped = {
        shown(bytes(program)).partition("_")[0]
        for program, error in errors_of(trace).items()
        if error not in (-errno.ESRCH, -errno.ENOSYS)
    }
    return {
        each.prefix
        for each in PROGRAMS
        if (each.mounts and not mounted & each.mounts)
        or (each.disk and not any(disk.startswith(each.disk) for disk in disks))
        or (each.thread and each.thread not in kinds)
        or (each.hops and not each.hops & hops)
        or (each.serves and each.serves not in served)
        or (each.library and each.prefix not in mapped)
    }


def _merged(gaps: Sequence[tuple[str, NotObserved]]) -> tuple[NotObserved, ...]:
    """What several machines did not observe, once, and on which; their order is kept."""
    machines: dict[NotObserved, list[str]] = {}
    for machine, gap in gaps:
        machines.setdefault(gap, []).append(machine)
    return tuple(replace(gap, machines=tuple(names)) for gap, names in machines.items())


def _cost(trace: Trace) -> Cost:
    costs, recorder = trace.points["cost"], trace.points["recorder"]
    bpf = None
    if len(costs):
        # Counters only grow: each program's last sample is its total.
        programs, last = np.unique(costs["program"][::-1], return_index=True)
        bpf = int(integers(costs["run_ns"])[::-1][last].sum()) if len(programs) else None
    spent = recorder["cpu_ns"].tolist()
    # The first sample is what setting up took: loading the programs, not recording.
    cpu = spent[-1] - spent[0] if len(spent) > 1 else None
    return Cost(
        events=trace.event_count,
        duration_ns=trace.end_ns - trace.begin_ns,
        bpf_ns=bpf,
        recorder_cpu_ns=None if _cost_cannot_be(trace) else cpu,
        unmeasured="bpftrace" if by_script(trace.env) else "",
    )


def _cost_cannot_be(trace: Trace) -> bool:
    """Whether the recorder tells of CPU time that grew less than none, or by more than all CPUs
    have."""
    samples = columns_of(trace.points["recorder"], "cpu_ns")
    if len(samples["time_ns"]) < 2:
        return False
    cpus = trace.env.get("machine_cpus")
    most = max(cpus if isinstance(cpus, int) else 0, len(trace.streams))
    elapsed = int(samples["time_ns"][-1] - samples["time_ns"][0]) + UNSURE_NS
    spent = samples["cpu_ns"]
    first, last = int(spent[0]), int(spent[-1])
    return first < 0 or not ascend(spent) or last - first > most * elapsed


def _together(costs: Sequence[Cost]) -> Cost:
    """Of all machines; what one of them did not measure is not known of all."""
    bpf = [cost.bpf_ns for cost in costs]
    cpu = [cost.recorder_cpu_ns for cost in costs]
    return Cost(
        events=sum(cost.events for cost in costs),
        duration_ns=max(cost.duration_ns for cost in costs),
        bpf_ns=None if None in bpf else sum(ns for ns in bpf if ns is not None),
        recorder_cpu_ns=None if None in cpu else sum(ns for ns in cpu if ns is not None),
        unmeasured=next((cost.unmeasured for cost in costs if cost.unmeasured), ""),
    )
