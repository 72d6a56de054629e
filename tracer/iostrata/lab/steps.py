# SPDX-License-Identifier: Apache-2.0
"""Lab stage: what a scenario says is to be built: machines, links, and a storage stack's steps.

To add a kind of step: one tagged struct here, listed in ``Step``, and what
brings it about in stack.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,15}$")]
Count = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[int, msgspec.Meta(ge=0)]
Place = Annotated[str, msgspec.Meta(pattern=r"^/[\w./-]+$")]
Address = Annotated[str, msgspec.Meta(pattern=r"^\d+(\.\d+){3}/\d+$")]


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a scenario: no key goes unread."""


class Disk(Strict, frozen=True, kw_only=True):
    """A virtio disk, its image a new sparse file of the lab."""

    name: Name
    size_mib: Count = 1024


class Machine(Strict, frozen=True, kw_only=True):
    """``nested``: the machine in which this one runs.

    ``cpus``: on a machine that is not nested, more than one needs KVM (see ``qemu.racing``).
    ``poll``: its kernel waits without halting the CPU, which an emulator wakes the later the
    longer it was halted: what waits for a delayed part would seem delayed, too.
    ``modules``: loaded although no step needs them, to see whether they can be observed.
    ``observed``: layers that a recorder must see there, at least partly.
    """

    name: Name
    role: Literal["local", "guest", "host", "server"] = "local"
    nested: Name | None = None
    kernel: str = "6.1"
    cpus: Count = 1
    poll: bool = False
    memory_mib: Annotated[int, msgspec.Meta(ge=256)] = 1024
    disks: tuple[Disk, ...] = ()
    modules: tuple[Name, ...] = ()
    observed: tuple[str, ...] = ()


class Link(Strict, frozen=True, kw_only=True):
    """A cable between two machines; their interfaces bear its name.

    ``addresses``: of each machine at its end, as 192.0.2.1/24.
    """

    name: Name
    addresses: dict[Name, Address]


class Built(Strict, frozen=True, kw_only=True):
    """What all steps have."""

    name: Name
    machine: Name


class NullBlock(Built, tag="null_blk", tag_field="kind", frozen=True, kw_only=True):
    """A disk in the machine's memory that completes each request after ``completion_ns``."""

    size_mib: Count = 256
    completion_ns: Amount = 0


class FileSystem(Built, tag="file_system", tag_field="kind", frozen=True, kw_only=True):
    """``device``: a disk of the machine, or an earlier step there.

    ``journal``: the same, for ext4's journal if that is not on ``device`` itself.
    """

    device: Name
    journal: Name | None = None
    type: Literal["ext4", "xfs", "btrfs"] = "ext4"
    directory: Place


class NfsServer(Built, tag="nfs_server", tag_field="kind", frozen=True, kw_only=True):
    """Exports ``directory``, synchronously."""

    directory: Place
    version: Literal[3, 4] = 4
    threads: Count = 8


class NfsMount(Built, tag="nfs_mount", tag_field="kind", frozen=True, kw_only=True):
    """``server``: an earlier nfs_server, on a machine at the other end of a link."""

    server: Name
    directory: Place
    options: str = "rw"


class Image(Built, tag="image", tag_field="kind", frozen=True, kw_only=True):
    """A disk of ``guest``, its image a new sparse file in ``directory`` of the machine below.

    ``iops``: QEMU lets no more than so many requests a second through; 0: any number.
    """

    directory: Place
    guest: Name
    size_mib: Count = 256
    cache: Literal["none", "writeback", "writethrough", "directsync"] = "none"
    aio: Literal["threads", "native", "io_uring"] = "threads"
    iothread: bool = False
    iops: Amount = 0


class CpuQuota(Built, tag="cpu_quota", tag_field="kind", frozen=True, kw_only=True):
    """The virtual CPUs of ``guest`` together run ``quota_ns`` in ``period_ns``; 0: no limit."""

    guest: Name
    quota_ns: Amount = 0
    period_ns: Count = 20_000_000


class Netem(Built, tag="netem", tag_field="kind", frozen=True, kw_only=True):
    """Each packet that the machine sends over ``link`` waits for ``delay_ns``."""

    link: Name
    delay_ns: Amount = 0


Step = NullBlock | FileSystem | NfsServer | NfsMount | Image | CpuQuota | Netem
