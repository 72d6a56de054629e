# SPDX-License-Identifier: Apache-2.0
"""The declared stack: every row of the table, and the rule that credits time to one of them.

At each instant of a write the deepest layer at work for it holds the time. "Deepest"
is the order of ``STACK``: a later rank wins over an earlier one. Several ranks
may share one row (a request tied by time alone ranks below everything that is
tied by a key, but its time is still the device's).

Each machine on a write's path has the whole stack once; all of a lower machine's
ranks are deeper than all of an upper one's. Its first ranks are those of the way
to it and back (``HOPS``), which exist only between two recorded machines.

To add a layer: one ``Row``, one or more ``Rank``s, and the stitcher that makes spans of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Row:
    """One row of the table.

    ``segment``: ``OS`` (of its machine), ``upper OS`` (of the machine that the hop
    comes from), ``device``, ``hypervisor``, ``network``, or ``beyond`` (what a
    call to a machine that was not recorded took).
    """

    name: str
    segment: str
    meaning: str


@dataclass(frozen=True)
class Rank:
    """One level of the stack; ``row`` is the table row it credits, None the residual."""

    name: str
    row: str | None


ROWS: Final = (
    Row("kvm.exit", "hypervisor", "virtual CPU left guest mode, until it entered again"),
    Row("vcpu.runqueue", "hypervisor", "virtual CPU runnable, but without a CPU or out of quota"),
    Row("virtio.submit", "upper OS", "guest's driver: issued until the device was told"),
    Row("vmm.submit", "hypervisor", "device told until the VMM's system call"),
    Row("vmm.runqueue", "hypervisor", "thread of the VMM runnable, but without a CPU"),
    Row("vmm.complete", "hypervisor", "VMM's system call done until it asked for an interrupt"),
    Row("kvm.inject", "hypervisor", "interrupt asked for until the guest took it"),
    Row("virtio.interrupt", "upper OS", "guest's driver: interrupt until the request was complete"),
    Row("network.there", "network", "call sent until the server had all of it"),
    Row("network.back", "network", "reply sent until the client had it"),
    Row("unfollowed", "not followed", "asked of the machine below, where nothing was found of it"),
    Row("svc.queue", "OS", "call received until a server thread took it up"),
    Row("svc", "OS", "in the RPC service and the NFS server, outside the file system"),
    Row("syscall", "OS", "on the CPU in the system call: entry, copy, return"),
    Row("fs", "OS", "in the file system's sync, outside journal and block layer"),
    Row("rpc.queue", "OS", "NFS client's call until it was sent: slots, credentials, encoding"),
    Row("rpc.reply", "OS", "reply there until the call had ended"),
    Row("lock", "OS", "asleep until another thread of the workload let go"),
    Row("journal.start", "OS", "asleep until the journal thread began the commit"),
    Row("journal.locking", "OS", "commit waits for open handles of the transaction"),
    Row("journal.flushing", "OS", "commit writes ordered data, outside the device"),
    Row("journal.logging", "OS", "commit writes log blocks, outside the device"),
    Row("wakeup.worker", "OS", "handed to a kernel worker until that began"),
    Row("wakeup.reap", "OS", "complete until the caller collected it (io_uring, libaio)"),
    Row("wakeup.interrupt", "OS", "from completion to the wake-up of who waits"),
    Row("wakeup.runqueue", "OS", "runnable, but another task has the CPU"),
    Row("block.Q2G", "OS", "bio queued until it got a request"),
    Row("block.Q2I", "OS", "bio queued until in the scheduler (request not seen)"),
    Row("block.Q2D", "OS", "bio queued until issued to the driver"),
    Row("block.G2I", "OS", "request got until in the scheduler"),
    Row("block.G2D", "OS", "request got until issued, past the scheduler"),
    Row("block.I2D", "OS", "in the I/O scheduler until issued to the driver"),
    Row("block.stacked", "OS", "in a stacked device (loop, dm) above the lowest one"),
    Row("rpc.call", "beyond", "call sent until the reply: network and server"),
    Row("device.data", "device", "issued to completed: the data"),
    Row("device.meta", "device", "issued to completed: metadata read, or written past the journal"),
    Row("device.journal", "device", "issued to completed: journal blocks"),
    Row("device.flush", "device", "issued to completed: cache flush"),
)

HOPS: Final = (
    Rank("kvm.exit", "kvm.exit"),
    Rank("virtio.submit", "virtio.submit"),
    Rank("kvm.inject", "kvm.inject"),
    Rank("virtio.interrupt", "virtio.interrupt"),
    # A virtual CPU that cannot run matters until the VMM has been told, and once it is done.
    Rank("vcpu.runqueue", "vcpu.runqueue"),
    Rank("vmm.submit", "vmm.submit"),
    Rank("vmm.complete", "vmm.complete"),
    Rank("vmm.runqueue", "vmm.runqueue"),
    Rank("network.there", "network.there"),
    Rank("network.back", "network.back"),
    Rank("svc.queue", "svc.queue"),
    Rank("unfollowed", "unfollowed"),
)

STACK: Final = (
    *HOPS,
    # The floor of a machine's own: a system call, or a call served.
    Rank("syscall", "syscall"),
    Rank("svc", "svc"),
    Rank("fs", "fs"),
    # Asleep for no reason that was observed: this is what "unattributed" means.
    Rank("blocked", None),
    # Requests that only time ties to the write claim no more than that sleep.
    Rank("timed.queue", "block.Q2D"),
    Rank("timed.data", "device.data"),
    Rank("timed.meta", "device.meta"),
    Rank("timed.flush", "device.flush"),
    Rank("lock", "lock"),
    Rank("journal.start", "journal.start"),
    Rank("journal.locking", "journal.locking"),
    Rank("journal.flushing", "journal.flushing"),
    Rank("journal.logging", "journal.logging"),
    Rank("rpc.queue", "rpc.queue"),
    Rank("rpc.reply", "rpc.reply"),
    Rank("wakeup.worker", "wakeup.worker"),
    Rank("wakeup.reap", "wakeup.reap"),
    Rank("wakeup.runqueue", "wakeup.runqueue"),
    Rank("wakeup.interrupt", "wakeup.interrupt"),
    Rank("block.Q2G", "block.Q2G"),
    Rank("block.Q2I", "block.Q2I"),
    Rank("block.Q2D", "block.Q2D"),
    Rank("block.G2I", "block.G2I"),
    Rank("block.G2D", "block.G2D"),
    Rank("block.I2D", "block.I2D"),
    Rank("block.stacked", "block.stacked"),
    Rank("lower.queue", "block.Q2D"),
    Rank("rpc.call", "rpc.call"),
    Rank("device.flush", "device.flush"),
    Rank("device.meta", "device.meta"),
    Rank("device.journal", "device.journal"),
    Rank("device.data", "device.data"),
)

UNFOLLOWED: Final = "unfollowed"

RANK: Final = {rank.name: number for number, rank in enumerate(STACK)}
