# SPDX-License-Identifier: Apache-2.0
"""iostrata doctor: what this machine can observe, and what to do about the rest."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from iostrata import native
from iostrata.cli import doctor_json
from iostrata.cli.present import terminal_width
from iostrata.cli.remarks import cautions, remarks
from iostrata.errors import PermissionDenied
from iostrata.foreign import shown
from iostrata.record import BUYS, Carried, Diagnosis, Disk, Probe, Verdict, diagnose
from iostrata.report import cut, labelled, wrapped
from iostrata.units import duration, few


def doctor(
    json: Annotated[bool, typer.Option("--json", help="As JSON, on standard output.")] = False,
) -> int:
    """Say what this machine can observe, layer by layer.

    Every probe is loaded and attached once, which takes root; without it only
    the machine's facts are read. Exit status 0: synchronous writes can be
    followed from the system call to the device; 4: they cannot.

    \b
      sudo iostrata doctor
    """
    found = diagnose()
    if json:
        sys.stdout.write(doctor_json.render(found))
    else:
        for line in lines(found, terminal_width()):
            print(line)
    return 0 if found.observable else PermissionDenied.status


def lines(found: Diagnosis, width: int) -> Iterator[str]:
    this = found.machine
    yield from labelled(
        "kernel", [f"{this.kernel} {this.architecture}", f"{this.cpus} CPUs"], width
    )
    yield from labelled("clock", [this.clock_source or "unknown"], width)
    yield from labelled("BTF", ["yes" if this.btf else "no"], width)
    if this.lockdown:
        yield from labelled("lockdown", [this.lockdown], width)
    if found.refusal:
        yield from labelled("eBPF", [f"refused: {found.refusal.why}"], width)
        yield from labelled("  try", [found.refusal.hint], width)
    else:
        yield from labelled("eBPF", ["allowed"], width)
    if native.LIBRARY is None:
        slow = f"{native.NAME}: without it the analysis takes longer; in its source: make native"
        yield from labelled("missing", [slow], width)
    for name in found.lacking:
        yield from labelled("missing", [f"{name}: {BUYS[name][1]}"], width)
    yield ""
    yield f"{'layer':<12}{'seen':<11}by"
    for verdict in found.verdicts:
        yield from _layer(verdict, width)
        for caution in cautions(verdict, this):
            yield from labelled("", [caution], width)
    yield ""
    yield f"{'disk':<12}{'scheduler':<13}{'write cache':<15}{'FUA':<5}rotates"
    for disk in this.disks:
        yield from _disk(disk, width)
    for carried in found.mounts:
        yield ""
        yield from labelled("NFS mount", list(_mount(carried)), width)
    yield ""
    if found.observable:
        yield "Synchronous writes can be followed from the system call to the device."
    else:
        yield "Synchronous writes cannot be followed here."


def _layer(verdict: Verdict, width: int) -> Iterator[str]:
    points = [point for probe in verdict.working for point in probe.points]
    row = f"{verdict.visibility.name:<12}{verdict.seen:<11}{few(points)}"
    yield from wrapped(row, width, 23)
    if verdict.seen == "absent":
        yield from labelled("", [verdict.visibility.absent], width)
        return
    reasons: dict[str, list[str]] = {}
    for probe in verdict.broken:
        reasons.setdefault(_broken(probe), []).append(probe.program)
    for reason, programs in reasons.items():
        yield from labelled("", [f"{', '.join(programs)}: {reason}"], width)
    if verdict.seen == "no":
        yield from labelled("", [f"so {verdict.visibility.without}"], width)


def _broken(probe: Probe) -> str:
    return f"{probe.result}, {probe.text or 'cannot be attached'}"


def _disk(disk: Disk, width: int) -> Iterator[str]:
    text = f"{disk.name:<12}{disk.scheduler or '-':<13}{disk.write_cache or '-':<15}"
    yield cut(f"{text}{disk.fua or '-':<5}{disk.rotational or '-'}", width).rstrip()
    for remark in remarks(disk):
        yield from labelled("", [remark], width)


def _mount(carried: Carried) -> Iterator[str]:
    mount, route = carried.mount, carried.route
    yield shown(f"{mount.mount_point} of {mount.source}")
    if not route:
        yield f"{mount.address} is not reached from here: another network namespace's mount?"
        return
    yield f"to {mount.address} by {route.interface}" + (
        f", gateway {route.gateway}" if route.gateway else ""
    )
    for each in carried.connections:
        yield (
            f"TCP port {each.local_port}: RTT {duration(each.rtt_us * 1e3)}, "
            f"least {duration(each.min_rtt_us * 1e3)}"
        )
    if not carried.connections:
        yield f"no TCP connection to port {mount.port}: idle, {mount.protocol}, or not to be seen"
