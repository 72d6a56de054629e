# SPDX-License-Identifier: Apache-2.0
"""Guests whose images are files of their host's own disk, with known truth: several at once.

As in ``chain``, but a guest may have many requests under way, each of which a thread of its own
of the virtual machine monitor carries out, and an image may keep them elsewhere in its file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.chain import PWRITEV, Chain, Costs
from tests.synthetic import Request, device, submit

HOST_DISK = device(253, 0)
FIRST_WORKER = 510
O_DIRECT = 0o40000
IMAGES = 77
"""The number of the first guest's image on the host's file system."""


@dataclass
class Local(Chain):
    """``placed``: where in its file the image keeps what the guest writes at an offset.

    ``whole``: so many bytes at a multiple of as many are written, if any is. ``asked``: how many
    requests the monitor was given. ``rwf``: with which it writes.
    """

    placed: Callable[[int], int] = int
    whole: int = 0
    rwf: int = 0
    asked: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.host.builder.block(HOST_DISK, "sda")
        self.image = IMAGES + self.vm

    def carried_out(self, enter: int, offset: int, costs: Costs, account: Counter[str]) -> int:
        """A thread of the monitor's pool writes to the image; when that returned."""
        tid = FIRST_WORKER + 100 * self.vm + self.asked % 64
        self.asked += 1
        self.host.emit("thread", 1, tid, tgid=self.vmm, subject_tid=tid, kind=4, comm=b"worker")
        queue = enter + costs.client
        place, size = self.placed(offset), 8192
        if self.whole:
            place, size = place - place % self.whole, self.whole
        request = Request(queue=costs.disk.queue, scheduler=None, device=costs.disk.device,
                          sector=place // 512 + 2_000_000 * self.vm, size=size)  # fmt: skip
        spent = submit(self.host, HOST_DISK, tid, queue, request)
        wake = queue + sum(spent.values()) + 700
        back = wake + 1_100
        self.host.emit("sched_resume", back, tid, off_ns=queue, wake_ns=wake, waker_tid=0,
                       state=2, subject_tid=tid)  # fmt: skip
        self.host.emit("syscall", back + 600, tid, enter_ns=enter, inode=self.image, dev=HOST_DISK,
                       offset_bytes=place, size_bytes=size, result=size, tgid=self.vmm,
                       open_flags=O_DIRECT, call=PWRITEV, rwf=self.rwf)  # fmt: skip
        account += Counter({f"host/{row}": ns for row, ns in spent.items()})
        account += Counter({
            "host/syscall": costs.client + 600, "host/wakeup.interrupt": 700,
            "host/wakeup.runqueue": 1_100,
        })  # fmt: skip
        return back + 600
