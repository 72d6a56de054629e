# SPDX-License-Identifier: Apache-2.0
"""Lab stage: the declared stack in, built on the running machines step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import takewhile

from iostrata.lab import guest, network, nfs, storage
from iostrata.lab.site import Site
from iostrata.lab.steps import (
    CpuQuota,
    FileSystem,
    Image,
    Netem,
    NfsMount,
    NfsServer,
    NullBlock,
    Step,
)


def needed_tools(steps: Iterable[Step]) -> set[str]:
    """Programs of this machine, whose files the machines share."""
    tools = set()
    for step in steps:
        match step:
            case FileSystem():
                tools.add(f"mkfs.{step.type}")
            case NfsServer():
                tools.add("rpc.nfsd")
            case NfsMount():
                tools.add("mount.nfs")
            case Netem():
                tools.add("tc")
    return tools


def build(steps: Sequence[Step], site: Site) -> None:
    """What is built already stays, up to the first step that differs. Errors: LabError."""
    built = [step for step, _ in site.steps.values()]
    same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(built, steps, strict=False))
    )
    for step in reversed(built[same:]):
        _, down = site.steps.pop(step.name)
        down.close()
    for step in steps[same:]:
        with ExitStack() as down:
            _build(step, site, down)
            site.steps[step.name] = step, down.pop_all()


def _build(step: Step, site: Site, down: ExitStack) -> None:
    machine = site.machines[step.machine]
    match step:
        case NullBlock():
            storage.null_block(step, machine, down)
        case FileSystem():
            storage.file_system(step, machine, down)
        case NfsServer():
            nfs.serve(step, machine, down)
        case NfsMount():
            nfs.mount(step, site, down)
        case Image():
            guest.plug_image(step, machine, site.machines[step.guest], down)
        case CpuQuota():
            guest.limit_cpus(step, machine, down)
        case Netem():
            network.delay(step, machine, down)
