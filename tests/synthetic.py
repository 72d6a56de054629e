# SPDX-License-Identifier: Apache-2.0
"""Recordings with known truth: a small world that emits events and keeps the account itself.

Nothing here looks at spans or ranks: each step knows how long it put the writer
where, so the analysis can be held against it to the nanosecond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from iostrata.trace.layout import WAKE_INTERRUPT
from tests.builder import TraceBuilder

O_DSYNC, O_SYNC = 0o10000, 0o4010000
CALLS = {
    "write": 1, "pwrite64": 2, "writev": 3, "pwritev": 4, "pwritev2": 5,
    "fsync": 6, "fdatasync": 7, "sync_file_range": 8, "msync": 9,
    "sync": 13, "syncfs": 14, "pread64": 22,
}  # fmt: skip
READ, WRITE, FLUSH_OP, SYNC, META, FUA, PREFLUSH = 0, 1, 2, 1 << 11, 1 << 12, 1 << 17, 1 << 18
NO_SECTOR = (1 << 64) - 1
TASK_UNINTERRUPTIBLE = 2


def device(major: int, minor: int) -> int:
    return major << 20 | minor


Clock = Callable[[int], int]
"""The world's time in, a machine's clock out."""


def clock(offset_ns: int, drift_ppm: int = 0) -> Clock:
    return lambda time_ns: time_ns + offset_ns + time_ns * drift_ppm // 1_000_000


@dataclass
class World:
    """Emits events; pointers are reused as soon as they are free, as kernels do.

    ``deaf_to``: a point, or several, or ``*``.
    """

    builder: TraceBuilder = field(default_factory=TraceBuilder)
    deaf_to: str = ""
    clock: Clock = int
    _in_use: dict[str, list[list[tuple[int, int]]]] = field(default_factory=dict)

    def emit(self, point: str, time_ns: int, tid: int, **fields: int | bytes) -> None:
        if self.deaf_to == "*" or point in self.deaf_to.split():
            return
        for name, value in fields.items():
            if name.endswith("_ns") and isinstance(value, int) and value > 0:
                fields[name] = self.clock(value)
        self.builder.add(point, time_ns=self.clock(time_ns), cpu=tid % 4, tid=tid, **fields)

    def pointer(self, kind: str, begin_ns: int, end_ns: int) -> int:
        """A pointer of this kind that nobody else holds in that time."""
        slots = self._in_use.setdefault(kind, [])
        free = (
            number
            for number, held in enumerate(slots)
            if all(end < begin_ns or begin > end_ns for begin, end in held)
        )
        number = next(free, len(slots))
        if number == len(slots):
            slots.append([])
        slots[number].append((begin_ns, end_ns))
        return 0xFFFF_8880_0000_0000 + hash_of(kind) * 0x100_0000 + number * 0x140

    def target(self, tid: int, time_ns: int = 1, comm: bytes = b"writer", kind: int = 1) -> None:
        self.emit("thread", time_ns, tid, tgid=tid, subject_tid=tid, kind=kind, comm=comm)


def hash_of(kind: str) -> int:
    return sum(kind.encode()) % 1000


ASKING = 200


@dataclass
class Request:
    """What one request costs in each place; ``scheduler`` None: issued directly.

    ``asleep``: of ``queue`` as long at first, its thread slept until one was there, which the
    completion of another's let go; then it waited ``ASKING`` for a CPU. ``frozen``: as its queue
    was.
    """

    queue: int = 300
    scheduler: int | None = 700
    device: int = 30_000
    sector: int = 4096
    size: int = 8192
    meta: bool = False
    read: bool = False
    asleep: int = 0
    frozen: bool = False


def submit(
    world: World, disk: int, tid: int, time_ns: int, request: Request, held: bool = False,
    data_tid: int = 0, cgroup: int = 0, asked_key: int = 0, inode: int = 0,
) -> Counter[str]:  # fmt: skip
    """One data request from Q to C; returns where its time went.

    ``held``: a kernel worker queues it, as a control group's limit (``cgroup``) had held it
    back. ``data_tid``: whose data a kernel worker writes; ``asked_key``: for which asynchronous
    request that limit held it back, and ``inode``: of which file's pages.
    """
    insert = time_ns + request.queue
    issue = insert + (request.scheduler or 0)
    complete = issue + request.device
    rq = world.pointer(f"rq{disk}", time_ns, complete + 1)
    bio = world.pointer(f"bio{disk}", time_ns, complete + 1)
    flags = (READ if request.read else WRITE) | SYNC | (META if request.meta else 0)
    place = {"dev": disk, "sector": request.sector, "size_bytes": request.size, "flags": flags}
    keys = {"request_key": rq, "bio_key": bio}
    world.emit(
        "block_bio_queue", time_ns, tid, bio_key=bio, kernel_thread=int(request.meta or held),
        held=int(held), data_tid=data_tid, **place
    )  # fmt: skip
    asked = request.asleep and request.asleep + ASKING
    if asked:
        world.emit("sched_resume", time_ns + asked, tid, off_ns=time_ns,
                   wake_ns=time_ns + request.asleep, waker_tid=0, waker_cpu=0, state=2,
                   waker_context=WAKE_INTERRUPT, subject_tid=tid)  # fmt: skip
        world.emit("block_bio_asleep", time_ns + asked, tid, bio_key=bio, dev=disk,
                   subject_tid=tid, off_ns=time_ns, frozen=int(request.frozen))  # fmt: skip
    if cgroup:
        world.emit("block_bio_held", time_ns, tid, bio_key=bio, cgroup=cgroup,
                   request_key=asked_key, inode=inode, dev=disk)  # fmt: skip
    if request.scheduler is not None:
        world.emit("block_rq_insert", insert, tid, **keys, **place)
    world.emit("block_rq_issue", issue, tid, **keys, **place)
    world.emit("block_rq_complete", complete, 0, **keys, **place)
    spent = Counter({"device.journal" if request.meta else "device.data": request.device})
    if asked:
        spent["block.Q2G"] += request.asleep
        spent["wakeup.runqueue"] += ASKING
    if request.scheduler is None:
        spent["block.Q2D"] += request.queue - asked
    else:
        spent["block.Q2I"] += request.queue - asked
        spent["block.I2D"] += request.scheduler
    return spent


@dataclass
class Writer:
    """One thread; each step moves its clock and books the time in the open write's account."""

    world: World
    tid: int
    disk: int
    now: int
    inode: int = 12
    file_device: int | None = None
    truth: list[Counter[str]] = field(default_factory=list)
    account: Counter[str] = field(default_factory=Counter)
    floor: str = "syscall"
    kind: int = 1
    _enter: int = 0

    def __post_init__(self) -> None:
        self.world.target(self.tid, kind=self.kind)

    # -- the calls ---------------------------------------------------------

    def enter(self) -> None:
        self._enter = self.now

    def leave(
        self, call: str, *, flags: int = 0, result: int = 0, size: int = 0, rwf: int = 0
    ) -> None:
        self.world.emit(
            "syscall", self.now, self.tid, enter_ns=self._enter, inode=self.inode,
            offset_bytes=0, dev=self.file_device or self.disk, result=result, size_bytes=size,
            tgid=self.tid, open_flags=flags, call=CALLS[call], rwf=rwf,
        )  # fmt: skip

    def finish(self) -> None:
        """The write is durable: its account is closed."""
        self.truth.append(self.account)
        self.account = Counter()

    # -- the steps ---------------------------------------------------------

    def cpu(self, duration: int) -> None:
        self.account[self.floor] += duration
        self.now += duration

    def preempted(self, duration: int) -> None:
        off = self.now
        self.now += duration
        self.account["wakeup.runqueue"] += duration
        self._resume(off, 0, 0, state=0)

    def sleep(self, duration: int, *, waker: int, row: str | None, runqueue: int = 2_000) -> None:
        """Asleep without a request: ``row`` None is what must come out as residual."""
        off, wake = self.now, self.now + duration
        self.now = wake + runqueue
        self._resume(off, wake, waker)
        self.account[row or "residual"] += duration
        self.account["wakeup.runqueue"] += runqueue

    def data(self, request: Request, *, interrupt: int = 1_000, runqueue: int = 2_000) -> None:
        """A request of its own, and the sleep until it is complete."""
        spent = submit(self.world, self.disk, self.tid, self.now, request)
        asked = request.asleep and request.asleep + ASKING
        self.now += asked
        self._wait(sum(spent.values()) - asked, interrupt, runqueue)
        self.account += spent

    def flush(
        self, queue: int = 1_500, device: int = 40_000, tail: int = 800,
        interrupt: int = 1_000, runqueue: int = 2_000,
    ) -> None:  # fmt: skip
        """An empty flush: the block layer issues a request of its own for it."""
        queued, issued = self.now, self.now + queue
        flushed = issued + device
        done = flushed + tail
        world = self.world
        bio = world.pointer(f"bio{self.disk}", queued, done + 1)
        rq = world.pointer(f"rq{self.disk}", queued, done + 1)
        own = {"request_key": 0xFFFF_8881_1111_0000 + self.disk, "bio_key": 0, "sector": NO_SECTOR}
        flags = WRITE | SYNC | PREFLUSH
        world.emit("block_bio_queue", queued, self.tid, bio_key=bio, sector=0, dev=self.disk,
                   size_bytes=0, flags=flags, kernel_thread=0)  # fmt: skip
        worker = {"dev": self.disk, "size_bytes": 0, "flags": FLUSH_OP | PREFLUSH, **own}
        world.emit("block_rq_issue", issued, 77, **worker)
        world.emit("block_rq_complete", flushed, 0, **worker)
        world.emit("block_rq_complete", done, 0, request_key=rq, bio_key=bio, dev=self.disk,
                   sector=0, size_bytes=0, flags=flags)  # fmt: skip
        self._wait(queue + device, tail + interrupt, runqueue)
        self.account["block.Q2D"] += queue
        self.account["device.flush"] += device

    def wait_for(self, commit: Commit, *, interrupt: int = 1_000, runqueue: int = 2_000) -> None:
        """Asleep from now until the commit is over, whatever phase it is in by then."""
        off = self.now
        wake = commit.end + interrupt
        self.now = wake + runqueue
        self._resume(off, wake, commit.tid)
        self.account["journal.start"] += max(commit.begin - off, 0)
        for row, begin, end in commit.timeline:
            self.account[row] += max(end - max(begin, off), 0)
        self.account["wakeup.interrupt"] += interrupt
        self.account["wakeup.runqueue"] += runqueue

    def synced(self, enter_ns: int, commit: Commit | None) -> None:
        transaction = commit.transaction if commit else 0
        self.world.emit(
            "ext4_sync_file", self.now, self.tid, enter_ns=enter_ns, inode=self.inode,
            dev=self.file_device or self.disk, enter_transaction=transaction,
            exit_transaction=transaction, result=0, datasync=1,
        )  # fmt: skip

    def _wait(self, until_complete: int, interrupt: int, runqueue: int) -> None:
        # It goes to sleep at once: what is deeper than the sleep hides when exactly.
        off, wake = self.now, self.now + until_complete + interrupt
        self.now = wake + runqueue
        self._resume(off, wake, 0)
        self.account["wakeup.interrupt"] += interrupt
        self.account["wakeup.runqueue"] += runqueue

    def _resume(
        self, off: int, wake: int, waker: int, state: int = TASK_UNINTERRUPTIBLE, context: int = 0
    ) -> None:
        self.world.emit("sched_resume", self.now, self.tid, off_ns=off, wake_ns=wake,
                        waker_tid=waker, state=state, subject_tid=self.tid,
                        waker_context=context)  # fmt: skip


@dataclass
class Commit:
    """One jbd2 commit by its own thread, with log writes inside it."""

    world: World
    disk: int
    begin: int
    transaction: int
    tid: int = 900
    timeline: list[tuple[str, int, int]] = field(default_factory=list)
    end: int = 0

    def run(self, locking: int, flushing: int, requests: Iterable[Request]) -> Commit:
        now = self.begin
        self._point("jbd2_start_commit", now)
        self._point("jbd2_commit_locking", now + locking // 2)
        now = self._spend("journal.locking", now, locking)
        self._point("jbd2_commit_flushing", now)
        now = self._spend("journal.flushing", now, flushing)
        self._point("jbd2_commit_logging", now)
        for request in requests:
            now = self._spend("journal.logging", now, 400)
            off = now
            submit(self.world, self.disk, self.tid, now, request)
            now = self._request(request, off)
            self.world.emit("sched_resume", now + 1_500, self.tid, off_ns=off, wake_ns=now + 500,
                            waker_tid=0, state=2, subject_tid=self.tid)  # fmt: skip
            self.timeline.append(("wakeup.interrupt", now, now + 500))
            self.timeline.append(("wakeup.runqueue", now + 500, now + 1_500))
            now += 1_500
        now = self._spend("journal.logging", now, 600)
        self.end = now
        self._point("jbd2_end_commit", now)
        return self

    def _request(self, request: Request, now: int) -> int:
        scheduler = request.scheduler or 0
        first = "block.Q2D" if request.scheduler is None else "block.Q2I"
        now = self._spend(first, now, request.queue)
        now = self._spend("block.I2D", now, scheduler)
        return self._spend("device.journal", now, request.device)

    def _spend(self, row: str, now: int, duration: int) -> int:
        self.timeline.append((row, now, now + duration))
        return now + duration

    def _point(self, point: str, time_ns: int) -> None:
        self.world.emit(point, time_ns, self.tid, journal_key=0xFFFF_8882_0000_0000 + self.disk,
                        dev=self.disk, transaction=self.transaction, synchronous=1)  # fmt: skip


def write(world: World, path: Path) -> Path:
    """Writes the world as one machine's recording."""
    world.builder.write(path)
    return path
