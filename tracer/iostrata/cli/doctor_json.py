# SPDX-License-Identifier: Apache-2.0
"""A Diagnosis as JSON, schema ``iostrata.doctor/1``."""

from __future__ import annotations

from dataclasses import asdict

from msgspec import Struct

from iostrata.cli.remarks import cautions, remarks
from iostrata.record import Carried, Connection, Diagnosis, Disk, Probe, Route, Verdict
from iostrata.report import Count, text


class Refused(Struct, frozen=True):
    why: str
    hint: str


class System(Struct, frozen=True):
    """``lockdown``: null where the kernel is not locked down."""

    kernel: str
    architecture: str
    cpus: Count
    clock_source: str
    lockdown: str | None
    btf: bool
    debugfs: bool


class Program(Struct, frozen=True):
    """``result``: ``ok``, ``unused``, or the errno's name; ``text``: why."""

    program: str
    points: list[str]
    result: str
    text: str | None


class Layer(Struct, frozen=True):
    """``seen``: ``yes``, ``partly``, ``no``, ``absent`` (no such thing here) or ``not tried``.

    ``needed``: without it no write can be followed.
    """

    layer: str
    seen: str
    needed: bool
    cautions: list[str]
    probes: list[Program]


class BlockDevice(Struct, frozen=True):
    """What sysfs says of it; null where it does not."""

    name: str
    scheduler: str | None
    write_cache: str | None
    fua: str | None
    rotational: str | None
    stacked_on: list[str]
    remarks: list[str]


class Mount(Struct, frozen=True):
    """An NFS mount, and what carries it now; ``route`` null: there is none from here."""

    mount_point: str
    source: str
    address: str
    port: int
    protocol: str
    route: Route | None
    connections: list[Connection]


class Doctor(Struct, frozen=True, tag_field="schema", tag="iostrata.doctor/1"):
    """What this machine can observe. ``refused``: null where eBPF is allowed.

    ``lacking``: capabilities that more could be observed with.
    """

    observable: bool
    refused: Refused | None
    machine: System
    layers: list[Layer]
    disks: list[BlockDevice]
    mounts: list[Mount]
    lacking: list[str]


def render(found: Diagnosis) -> str:
    return text(document(found))


def document(found: Diagnosis) -> Doctor:
    this = found.machine
    return Doctor(
        observable=found.observable,
        refused=Refused(found.refusal.why, found.refusal.hint) if found.refusal else None,
        machine=System(
            kernel=this.kernel,
            architecture=this.architecture,
            cpus=this.cpus,
            clock_source=this.clock_source,
            lockdown=this.lockdown or None,
            btf=this.btf,
            debugfs=this.debugfs,
        ),
        layers=[_layer(verdict, list(cautions(verdict, this))) for verdict in found.verdicts],
        disks=[_disk(disk) for disk in this.disks],
        mounts=[_mount(carried) for carried in found.mounts],
        lacking=list(found.lacking),
    )


def _layer(verdict: Verdict, cautions: list[str]) -> Layer:
    probes = [_program(probe) for probe in (*verdict.working, *verdict.broken)]
    return Layer(verdict.visibility.name, verdict.seen, verdict.visibility.needed, cautions, probes)


def _program(probe: Probe) -> Program:
    return Program(probe.program, list(probe.points), probe.result, probe.text or None)


def _disk(disk: Disk) -> BlockDevice:
    return BlockDevice(
        name=disk.name,
        scheduler=disk.scheduler or None,
        write_cache=disk.write_cache or None,
        fua=disk.fua or None,
        rotational=disk.rotational or None,
        stacked_on=list(disk.stacked_on),
        remarks=list(remarks(disk)),
    )


def _mount(carried: Carried) -> Mount:
    return Mount(
        **asdict(carried.mount), route=carried.route, connections=list(carried.connections)
    )
