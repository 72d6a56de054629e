# SPDX-License-Identifier: Apache-2.0
"""Names: a machine's writes in, what people call their method, process, thread, file out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.analysis.placed import Placements
from iostrata.cgroups import NOT_KNOWN
from iostrata.columns import AsOf, Ints, at, coded, distinct, pair_key
from iostrata.hops import HOPS, Link
from iostrata.stitch import ENGINES, EVERY_DEVICE, METHODS, Units, image_name
from iostrata.trace import FileSystems, ProcessNames, ThreadNames, Trace, file_names, inode_numbers

NO_FILE: Final = "unknown"
NO_FILE_SYSTEM: Final = "no file system"

Coded = tuple[tuple[str, ...], NDArray[np.int32]]


def names_of(
    trace: Trace, units: Units, hosts: Sequence[Link] = ()
) -> tuple[dict[str, tuple[str, ...]], dict[str, NDArray[np.int32]]]:
    """The ``names`` and ``codes`` of ``Writes``. ``hosts``: the links from a guest to its host."""
    end_ns = units.end_ns
    process, _ = ProcessNames(trace).at(units.tgid, end_ns)
    thread, comm = ThreadNames(trace).at(units.tid, end_ns)
    engines = (*ENGINES, *(f"{hop.name}:" for hop in HOPS))
    placements = Placements(hosts)
    labels = [f"{engine}{name}" for engine in engines for name in METHODS]
    method = units.engine * len(METHODS) + units.method
    cgroups = _cgroups(trace, units.tid, end_ns)
    file_system, placed = _places(trace, units)
    found: Mapping[str, Coded] = {
        "machine": ((trace.machine,), np.zeros(len(units), np.int32)),
        "method": _coded(method, lambda code: labels[code]),
        "process": process,
        "thread": thread,
        "comm": comm,
        "cgroup": cgroups,
        "vm": _vms(trace, units.tgid, cgroups),
        "vcpu_placement": _coded(placements.at(units.tid, end_ns), placements.text),
        "file": _files(trace, units),
        "file_system": file_system,
        "device": placed,
    }
    names = {column: labels for column, (labels, _) in found.items()}
    return names, {column: codes for column, (_, codes) in found.items()}


def _places(trace: Trace, units: Units) -> tuple[Coded, Coded]:
    """The file system and the device of each write. Of a number that was several file systems',
    those that it was when the write ended; of a disk itself no file system, whatever is mounted."""
    facts, device = trace.facts, units.device_key
    kinds, kind = _coded(device, _or_all(facts.file_system_name))
    names, name = _coded(device, _or_all(lambda key: image_name(key) or facts.device_name(key)))
    # The number of a device's node.
    disks = (units.inode == device) & (device > 0)
    if disks.any():
        kinds, kind = _told_otherwise(kinds, kind, disks, [NO_FILE_SYSTEM], np.zeros(1, np.int64))
    again = [key for key in distinct(device).tolist() if facts.is_used_again(key)]
    rows = np.isin(device, again) & ~disks
    if rows.any():
        there = FileSystems(trace.points["file_system"])
        owner, place = coded(device[rows])
        met = there.at(device[rows], units.end_ns[rows])
        kinds, kind = _told_otherwise(
            kinds, kind, rows, [facts.name_of(one) for one in there.kinds], met
        )
        devices = [
            facts.device_name(one.below_key or key) for key in owner.tolist() for one in there.kinds
        ]
        names, name = _told_otherwise(names, name, rows, devices, place * len(there.kinds) + met)
    return (kinds, kind), (names, name)


def _told_otherwise(
    labels: tuple[str, ...],
    codes: NDArray[np.int32],
    rows: NDArray[np.bool_],
    texts: Sequence[str],
    places: Ints,
) -> Coded:
    """Some rows by other texts, at ``places`` (one for each, or one for all); no text without."""
    told = codes.astype(np.int64)
    told[rows] = len(labels) + places
    used, place = coded(told)
    every = [*labels, *texts]
    return _same_texts([every[code] for code in used.tolist()], place)


def _files(trace: Trace, units: Units) -> Coded:
    """The path that each write's file had when the write ended; else its device and number."""
    device, inode = units.device_key, units.inode
    number = inode_numbers(trace.facts, device, inode)
    told = file_names(trace.points["file_name"], trace.facts)
    row = told.rows(device, inode, units.end_ns)
    # What has a path by that, what has none by its number: each text is made once.
    _, numbered = coded(pair_key(inode, device))
    file = np.where(row >= 0, row, len(told.paths) + numbered)
    files, which = coded(file)
    one_of = np.empty(len(files), np.int64)
    one_of[which] = np.arange(len(which))

    def text(write: int) -> str:
        if row[write] >= 0:
            return told.paths[int(row[write])]
        return _number(trace, int(device[write]), int(number[write]))

    return _same_texts([text(write) for write in one_of.tolist()], which)


def _cgroups(trace: Trace, tid: Ints, end_ns: Ints) -> Coded:
    """The path of the control group that each thread was in when it was told of."""
    tasks = trace.points["task"].integers("subject_tid", "cgroup")
    row = AsOf(tasks["subject_tid"], tasks["time_ns"]).at_or_before(tid, end_ns)
    paths = trace.facts.cgroups
    group, codes = coded(at(tasks["cgroup"], row))
    return _same_texts([paths.get(number, NOT_KNOWN) for number in group.tolist()], codes)


def _vms(trace: Trace, tgid: Ints, cgroups: Coded) -> Coded:
    """The virtual machine that each process runs; empty: none."""
    paths, group = cgroups
    pairs, codes = coded(trace.facts.running_machines(tgid) * max(len(paths), 1) + group)
    pids = [(pair // len(paths), paths[pair % len(paths)]) for pair in pairs.tolist()]
    return _same_texts([trace.facts.virtual_machine(*one) for one in pids], codes)


def _number(trace: Trace, device: int, inode: int) -> str:
    if device == EVERY_DEVICE:
        return "all"
    if name := image_name(device):
        return name
    name = trace.facts.device_name(device)
    # A device's node, in recordings that give all of one the device's number.
    if inode == device:
        return name
    return f"{name}:{inode}" if inode > 0 else NO_FILE


def _coded(values: Ints, name: Callable[[int], str]) -> Coded:
    unique, codes = coded(values)
    return tuple(name(int(value)) for value in unique), codes.astype(np.int32)


def _same_texts(texts: list[str], codes: NDArray[np.integer]) -> Coded:
    names = tuple(dict.fromkeys(texts))
    place = {text: number for number, text in enumerate(names)}
    return names, np.array([place[text] for text in texts], np.int32)[codes]


def _or_all(name_of: Callable[[int], str]) -> Callable[[int], str]:
    return lambda key: "all" if key == EVERY_DEVICE else name_of(key)
