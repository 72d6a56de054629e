# SPDX-License-Identifier: Apache-2.0
"""A guest on a hypervisor on an NFS server, with known truth: each has a clock of its own.

As in ``synthetic``: every step knows how long it kept the write where, and
nothing here looks at spans, ranks or keys other than those it emits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from tests.synthetic import O_DSYNC, Clock, Request, World, Writer, clock, device

GUEST_DISK, SERVER_DISK, NFS = device(253, 16), device(8, 0), device(0, 44)
VMM, WORKER, MAIN_LOOP, VCPU, NFSD = 500, 501, 500, 504, 700
IMAGE_INODE = 77
QUEUE = 0xFFFF_8883_0000_0000
TASK = 0xFFFF_8884_0000_0000
CONNECTION = 800 << 16 | 2049
NPF, HALT, SVM = 0x400, 0x78, 2
PWRITEV, FDATASYNC = 4, 7


@dataclass
class Costs:
    """Where a request below the guest's block layer spends its time, in ns."""

    submit: int = 2_000
    vmm: int = 40_000
    client: int = 5_000
    rpc_queue: int = 7_000
    there: int = 60_000
    svc_queue: int = 9_000
    svc: int = 11_000
    disk: Request = field(default_factory=lambda: Request(scheduler=None, sector=9000))
    back: int = 70_000
    reply: int = 6_000
    complete: int = 30_000
    inject: int = 20_000
    interrupt: int = 3_000


APART = (clock(5_000_000, 0), clock(3_600_000_000_000, 3), clock(86_400_000_000_000, -7))


def drawn(random: Random, sector: int) -> Costs:
    def some(upto: int) -> int:
        return random.randint(100, upto)

    disk = Request(queue=some(900), scheduler=None, device=some(400_000), sector=sector * 3)
    return Costs(
        some(9_000), some(90_000), some(9_000), some(30_000), some(200_000), some(30_000),
        some(30_000), disk, some(200_000), some(9_000), some(60_000), some(50_000), some(9_000),
    )  # fmt: skip


@dataclass
class Chain:
    """``clocks``: of guest, host and server; ``xid``: of the last call.

    ``beside``: another guest's chain, whose host and server this one has, too; ``vm``: which
    of the host's virtual machines it is. ``nfsd_times``: when the server's thread took up
    each call. ``flags``: of the guest's requests.
    """

    clocks: tuple[Clock, Clock, Clock] = (int, int, int)
    xid: int = 100
    beside: Chain | None = None
    vm: int = 0
    flags: int = 1
    nfsd_times: list[int] = field(default_factory=list)
    written: list[Counter[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.guest, self.host, self.server = (World(clock=clock) for clock in self.clocks)
        if self.beside:
            self.host, self.server = self.beside.host, self.beside.server
        else:
            self.server.builder.block(SERVER_DISK, "sda")
        self.vmm = VMM + 100 * self.vm
        self.xid += 1_000_000 * self.vm
        for tid, name in ((MAIN_LOOP, b"qemu"), (WORKER, b"worker"), (VCPU, b"CPU 0/KVM")):
            self.host.emit("thread", 1, tid + 100 * self.vm, tgid=self.vmm,
                           subject_tid=tid + 100 * self.vm, kind=4, comm=name)  # fmt: skip
        self.nfsd = Writer(self.server, NFSD + 4 * self.vm, SERVER_DISK, 0, floor="svc", kind=5)
        self.guest.builder.block(GUEST_DISK, "vdb")

    def writer(self, now: int = 1_000_000) -> Writer:
        """A thread on the guest's only CPU."""
        return Writer(self.guest, 400, GUEST_DISK, now)

    def recording(self, path: Path, machines: str = "guest host server") -> Path:
        """Writes the machines that are asked for."""
        for name in machines.split():
            getattr(self, name).builder.write(path / name)
        described = [{"name": n, "role": n, "directory": n} for n in machines.split()]
        text = {"format": "iostrata.recording/1", "created": "", "machines": described}
        (path / "recording.json").write_text(json.dumps(text))
        return path

    def durable_write(self, writer: Writer, offset: int, costs: Costs) -> None:
        """One O_DSYNC write of the guest, from its call to its return."""
        writer.enter()
        writer.cpu(4_000)
        self.data(writer, offset, costs)
        writer.cpu(1_500)
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()
        writer.now += 10_000

    def data(self, writer: Writer, offset: int, costs: Costs, queue: int = 800) -> None:
        """A request of the guest, through all machines; its thread sleeps meanwhile."""
        world, account = self.guest, writer.account
        main_loop = MAIN_LOOP + 100 * self.vm
        bio, issue = writer.now, writer.now + queue
        rq = world.pointer("rq", bio, bio + 10_000_000)
        place = {"dev": writer.disk, "sector": offset // 512, "size_bytes": 8192,
                 "flags": self.flags}  # fmt: skip
        keys = {"request_key": rq, "bio_key": rq + 8}
        world.emit("block_bio_queue", bio, writer.tid, bio_key=rq + 8, kernel_thread=0, **place)
        world.emit("block_rq_issue", issue, writer.tid, **keys, **place)
        world.emit("virtio_add", issue, writer.tid, queue_key=QUEUE, request_key=rq, head=0)
        told = issue + costs.submit
        world.emit("virtio_notify", told + 900, writer.tid, queue_key=QUEUE, enter_ns=told)
        self.exit(told + 100, told + 800)
        done = self.carried_out(told + costs.vmm, offset, costs, account)
        asked = done + costs.complete
        self.host.emit("kvm_msi", asked, main_loop, tgid=self.vmm, vcpu=0, vector=0x26)
        heard = asked + costs.inject
        world.emit("virtio_interrupt", heard, 0, queue_key=QUEUE, irq=30)
        complete = heard + costs.interrupt
        world.emit("block_rq_complete", complete, 0, **keys, **place)
        writer._wait(complete - bio, 1_000, 2_000)
        account += Counter({
            "block.Q2D": queue, "virtio.submit": costs.submit, "host/vmm.submit": costs.vmm,
            "host/vmm.complete": costs.complete, "host/kvm.inject": costs.inject,
            "virtio.interrupt": costs.interrupt,
        })  # fmt: skip

    def exit(self, begin: int, end: int, reason: int = NPF, vcpu: int = 0) -> None:
        self.host.emit("kvm_exit", end, VCPU + 100 * self.vm, exit_ns=begin, tgid=self.vmm,
                       vcpu=vcpu, reason=reason, isa=SVM)  # fmt: skip

    def carried_out(self, enter: int, offset: int, costs: Costs, account: Counter[str]) -> int:
        """The VMM's system call, and what is below it; when it returned."""
        made = enter + costs.client
        send = made + costs.rpc_queue
        self.xid += 1
        # One that ends a call wakes who waits for it, before it ends another's.
        rpciod = 44 + 4 * self.vm
        worker, inode, task = WORKER + 100 * self.vm, IMAGE_INODE + self.vm, TASK + 512 * self.vm
        reply = self.served(send, offset, costs, account)
        ended = reply + costs.reply
        world = self.host
        world.emit("nfs_call", made, worker, call_key=task, inode=inode, dev=NFS,
                   offset_bytes=offset, size_bytes=8192, stable=2, operation=1)  # fmt: skip
        world.emit("rpc_call", ended, rpciod, call_key=task, send_ns=send,
                   ready_ns=reply, reply_ns=min(reply + 300, ended), xid=self.xid,
                   connection=CONNECTION)  # fmt: skip
        wake = ended + 700
        world.emit("sched_resume", wake + 1_100, worker, off_ns=send, wake_ns=wake,
                   waker_tid=rpciod, state=2, subject_tid=worker)  # fmt: skip
        back = wake + 1_100 + 600
        world.emit("syscall", back, worker, enter_ns=enter, inode=inode, dev=NFS,
                   offset_bytes=offset, size_bytes=8192, result=8192, tgid=self.vmm,
                   open_flags=0o40000, call=PWRITEV)  # fmt: skip
        account += Counter({
            "host/syscall": costs.client + 600, "host/rpc.queue": costs.rpc_queue,
            "host/rpc.reply": costs.reply, "host/wakeup.interrupt": 700,
            "host/wakeup.runqueue": 1_100,
        })  # fmt: skip
        return back

    def served(self, send: int, offset: int, costs: Costs, account: Counter[str]) -> int:
        """The server's thread with the call; when the client has the reply."""
        there = send + costs.there
        taken = there + costs.svc_queue
        thread = replace(self.nfsd, now=taken, account=Counter())
        self.nfsd_times.append(taken)
        thread.cpu(costs.svc)
        thread.data(costs.disk)
        thread.cpu(400)
        self.server.emit("svc_call", thread.now, self.nfsd.tid, enqueue_ns=there, dequeue_ns=taken,
                         receive_ns=taken + 50, offset_bytes=offset, size_bytes=8192,
                         xid=self.xid, connection=CONNECTION, operation=1)  # fmt: skip
        account += Counter({f"server/{row}": ns for row, ns in thread.account.items()})
        account += Counter({
            "server/network.there": costs.there, "server/svc.queue": costs.svc_queue,
            "server/network.back": costs.back,
        })  # fmt: skip
        return thread.now + costs.back


def recording_of(path: Path, chains: Sequence[Chain], below: str = "host server") -> Path:
    """Several guests of one host, and what is below it."""
    found = {f"guest{chain.vm}": (chain.guest, "guest") for chain in chains}
    found |= {name: (getattr(chains[0], name), name) for name in below.split()}
    for name, (world, _) in found.items():
        world.builder.write(path / name)
    described = [{"name": n, "role": role, "directory": n} for n, (_, role) in found.items()]
    text = {"format": "iostrata.recording/1", "created": "", "machines": described}
    (path / "recording.json").write_text(json.dumps(text))
    return path
