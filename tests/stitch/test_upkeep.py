# SPDX-License-Identifier: Apache-2.0
"""What a stacked device does below for itself, for whom it keeps waiting with it."""

from __future__ import annotations

import pytest

from iostrata.trace.facts import Striping
from iostrata.trace.layout import THREAD_HELPER, WAKE_THREAD
from tests.stitch.test_below import (
    DATA,
    FLUSH,
    KWORKER,
    POOL,
    SDA,
    THIN,
    Block,
    one_write,
    told,
)
from tests.stitch.test_truth import accounts
from tests.stitch.test_wakers import IDLE, resume
from tests.synthetic import FUA, WRITE, World, Writer, device

META, SNAPSHOT, OTHER, COPIER, RAID = device(8, 16), device(252, 9), 101, 68, 69
BEHIND = 64
"""On its first disk a mirror begins here."""
PLACE = 4096
"""Where the pool has the volume's sector 8."""


def of_kernel(world: World) -> None:
    world.target(KWORKER, kind=THREAD_HELPER, comm=b"kworker/u4:1")
    world.target(COPIER, kind=THREAD_HELPER, comm=b"kworker/0:2")
    world.target(RAID, kind=THREAD_HELPER, comm=b"mdX_raid5")


def on_thin() -> tuple[World, Block, Block, Block, Block]:
    """A thin volume, its pool, and the disks of that: for data, and for metadata."""
    world = World()
    world.builder.block(THIN, "dm-1", lower_keys=(POOL,))
    world.builder.block(POOL, "dm-0", lower_keys=(META, SDA))
    world.builder.block(SDA, "sda").block(META, "sdb")
    thin, pool, data, meta = (Block(world, dev) for dev in (THIN, POOL, SDA, META))
    of_kernel(world)
    return world, thin, pool, data, meta


def commits(meta: Block, begin: int, *, tid: int = KWORKER) -> None:
    """Of the pool's metadata, by its worker: from begin until begin + 21_000."""
    for first, end in ((begin, begin + 10_500), (begin + 11_000, begin + 20_500)):
        resume(meta.world, tid, first + 600, end + 100, end + 200)
    meta.queue(begin, tid, 0xC0, sector=64, kernel=1, flags=WRITE)
    meta.request(begin + 500, begin + 10_500, 0xD0, 0xC0, sector=64, tid=tid)
    meta.queue(begin + 11_000, tid, 0xC1, sector=0, kernel=1, flags=WRITE)
    meta.request(begin + 11_500, begin + 20_500, 0xD1, 0xC1, sector=0, tid=tid)


def passes_on(
    pool: Block, data: Block, time: int, bio: int, *, tid: int = KWORKER, sector: int = 8
) -> None:
    """What waited (a volume's bio at a sector) to the pool, which passes it to its disk."""
    place = PLACE + sector - 8
    pool.take_from(THIN, time, tid, bio, old_sector=sector, sector=place)
    pool.queue(time + 20, tid, bio, sector=place, kernel=1)
    data.take_from(POOL, time + 40, tid, bio + 0x1000, old_sector=place, sector=place)
    data.queue(time + 60, tid, bio + 0x1000, sector=place, kernel=1)
    data.request(time + 1_000, time + 31_000, bio + 0x2000, bio + 0x1000, sector=place, tid=tid)
    pool.complete(time + 31_100, bio)


def test_what_a_worker_writes_before_it_passes_on_what_waits() -> None:
    """Its metadata, 10000 and 9000; then the data, 30000."""
    world, thin, pool, data, meta = on_thin()
    thin.queue(2_000, 100, 0xB0)
    commits(meta, 5_000)
    passes_on(pool, data, 30_000, 0xB1)
    thin.complete(62_000, 0xB0)
    one_write(world, THIN, 62_500)
    breakdown = told(world)
    assert accounts(breakdown) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 500 + 500 + 940,
            "device.data": 10_000 + 9_000 + 30_000,
            "block.stacked": 3_000 + 500 + 4_500 + 60 + 1_000 - 200,
            "wakeup.interrupt": 500, "wakeup.runqueue": 100 + 100,
        }]
    }  # fmt: skip
    assert not breakdown.quality.left_over
    assert breakdown.quality.ties == {"key": 5}


def test_all_that_wait_meanwhile_have_what_it_writes() -> None:
    """The second one came when the first block of metadata was on its way."""
    world, thin, pool, data, meta = on_thin()
    thin.queue(2_000, 100, 0xB0)
    thin.queue(9_500, OTHER, 0xB8, sector=2056)
    commits(meta, 5_000)
    passes_on(pool, data, 30_000, 0xB1)
    passes_on(pool, data, 31_000, 0xBA, sector=2056)
    thin.complete(62_000, 0xB0)
    thin.complete(63_000, 0xB8)
    one_write(world, THIN, 62_500)
    one_write(world, THIN, 63_500, tid=OTHER, off=9_800)
    found = accounts(told(world))
    assert found[100][0]["device.data"] == 10_000 + 9_000 + 30_000
    assert found[OTHER][0]["device.data"] == 15_500 - 9_500 + 9_000 + 30_000


@pytest.mark.parametrize(
    "other",
    [
        "another thread",
        "another disk",
        "at rest meanwhile",
        "passed on before",
        "over later",
        "a thread of md",
    ],
)
def test_what_is_not_for_whom_waits(other: str) -> None:
    """A thread of the kernel's writes to a disk: of no such write it is known that any waited."""
    world, thin, pool, data, meta = on_thin()
    if other == "another disk":
        meta = Block(world, device(8, 32))
        world.builder.block(meta.dev, "sdc")
    thin.queue(2_000, 100, 0xB0)
    worker = RAID if other == "a thread of md" else KWORKER
    begin = 5_000
    if other == "passed on before":
        begin = 31_200
    elif other == "over later":
        begin = 19_800
    commits(meta, begin, tid=COPIER if other == "another thread" else worker)
    if other == "at rest meanwhile":
        resume(world, KWORKER, 26_500, 28_000, 28_500, state=IDLE)
    passes_on(pool, data, 30_000, 0xB1, tid=worker)
    thin.complete(62_000, 0xB0)
    one_write(world, THIN, 62_500)
    (account,) = accounts(told(world))[100]
    assert account["device.data"] == 30_000


def test_what_it_writes_before_it_says_that_all_is_there() -> None:
    """A whole new block goes to the disk at once; then the volume's worker commits where it is."""
    world, thin, pool, data, meta = on_thin()
    thin.queue(2_000, 100, 0xB0)
    passes_on(pool, data, 5_000, 0xB1)
    commits(meta, 40_000)
    world.emit("block_bio_complete", 65_000, KWORKER, bio_key=0xB0, sector=8, dev=THIN,
               size_bytes=8192, flags=DATA)  # fmt: skip
    one_write(world, THIN, 66_000)
    assert accounts(told(world))[100][0]["device.data"] == 30_000 + 10_000 + 9_000


def test_a_flush_for_which_it_commits() -> None:
    """Below there is no write cache: nothing is passed on."""
    world, thin, _, _, meta = on_thin()
    thin.queue(2_000, 100, 0xB0, sector=0, size=0, flags=FLUSH)
    commits(meta, 5_000)
    world.emit("block_bio_complete", 30_000, KWORKER, bio_key=0xB0, sector=0, dev=THIN,
               size_bytes=0, flags=FLUSH)  # fmt: skip
    one_write(world, THIN, 31_000)
    assert accounts(told(world)) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 500 + 500, "device.data": 10_000 + 9_000,
            "block.stacked": 3_000 + 500 + 4_500 - 200, "wakeup.interrupt": 1_000,
            "wakeup.runqueue": 100 + 100,
        }]
    }  # fmt: skip


@pytest.mark.parametrize("how", ["hands it over", "has the lock"])
def test_who_lets_that_one_go_which_passes_on_what_waits(how: str) -> None:
    """A flush that comes before data is over: another worker has the data passed on then. Or the
    worker writes what who passes on its own needs a lock of."""
    world, thin, pool, data, meta = on_thin()
    thin.queue(2_000, 100, 0xB0)
    commits(meta, 5_000)
    if how == "hands it over":
        resume(world, COPIER, 600, 27_000, 27_500, KWORKER, context=WAKE_THREAD, state=IDLE)
        resume(world, KWORKER, 27_200, 28_000, 29_000, COPIER, context=WAKE_THREAD, state=IDLE)
        passes_on(pool, data, 30_000, 0xB1)
        off = 2_500
    else:
        resume(world, 100, 2_600, 28_000, 29_000, KWORKER, context=WAKE_THREAD)
        passes_on(pool, data, 30_000, 0xB1, tid=100)
        off = 31_500
    thin.complete(62_000, 0xB0)
    one_write(world, THIN, 62_500, off=off)
    assert accounts(told(world))[100][0]["device.data"] == 10_000 + 9_000 + 30_000


def test_who_waits_for_what_another_has_waiting_there() -> None:
    """A sync sleeps until a page is written that was being written for another: it was kept in the
    volume until the metadata was written."""
    world, thin, pool, data, meta = on_thin()
    thin.queue(2_000, 70, 0xB0, kernel=1)
    commits(meta, 5_000)
    passes_on(pool, data, 30_000, 0xB1)
    thin.complete(62_000, 0xB0)
    resume(world, 100, 2_500, 62_100, 62_400)
    writer = Writer(world, 100, THIN, 1_000)
    writer.enter()
    writer.now = 63_000
    writer.leave("fsync")
    assert accounts(told(world))[100][0]["device.data"] == 10_000 + 9_000 + 30_000


@pytest.mark.parametrize("own", [True, False])
def test_what_is_cleared_where_what_waits_is_put(*, own: bool) -> None:
    """Another thread writes the whole block first. Of two at once each has its own."""
    world, thin, pool, data, _ = on_thin()
    thin.queue(2_000, 100, 0xB0)
    thin.queue(2_100, OTHER, 0xB8, sector=2056)
    for number, place in enumerate((PLACE, PLACE + 2048)):
        begin, bio = 5_000 + 100 * number, 0xE0 + number
        first = place - 8 if own else place + 8192
        pool.queue(begin, COPIER, bio, sector=first, size=65536, kernel=1, flags=WRITE)
        whole = {"sector": first, "size": 65536, "flags": WRITE}
        data.take_from(POOL, begin + 20, COPIER, bio + 0x10, old_sector=first, **whole)
        data.queue(begin + 40, COPIER, bio + 0x10, kernel=1, **whole)
        data.request(begin + 400, begin + 10_400 + 5_000 * number, 0xF0 + number, bio + 0x10,
                     sector=first, size=65536, tid=COPIER)  # fmt: skip
        pool.complete(begin + 10_500 + 5_000 * number, bio, size=65536, flags=WRITE)
    passes_on(pool, data, 30_000, 0xB1)
    passes_on(pool, data, 31_000, 0xBA, sector=2056)
    thin.complete(62_000, 0xB0)
    thin.complete(63_000, 0xB8)
    one_write(world, THIN, 62_500)
    one_write(world, THIN, 63_500, tid=OTHER)
    breakdown = told(world)
    found = accounts(breakdown)
    if own:
        assert found[100][0]["device.data"] == 10_000 + 30_000
        assert found[OTHER][0]["device.data"] == 15_000 + 30_000
    assert breakdown.quality.ties == ({"key": 10} if own else {"key": 6, "time": 4})


def copied(disk: Block, begin: int, read: int, bio: int, sector: int, *, rests: bool = True) -> int:
    """A block of 64 KiB, from another place to a sector: since when it is there. It is written
    30000 after its read began, which ends after 10000."""
    world, keys = disk.world, {"size": 65536, "tid": COPIER}
    disk.queue(begin, COPIER, bio, sector=read, size=65536, flags=0, kernel=1)
    place = {"dev": SDA, "sector": read, "size_bytes": 65536, "flags": 0}
    world.emit("block_rq_issue", begin + 200, COPIER, request_key=bio + 1, bio_key=bio, **place)
    world.emit("block_rq_complete", begin + 10_200, 0, request_key=bio + 1, bio_key=bio, **place)
    if rests:
        resume(world, COPIER, begin + 400, begin + 10_300, begin + 10_400, state=IDLE)
    disk.queue(begin + 30_000, COPIER, bio + 2, sector=sector, size=65536, flags=WRITE, kernel=1)
    disk.request(begin + 30_200, begin + 36_200, bio + 3, bio + 2, sector=sector, **keys)
    return begin + 36_200


@pytest.mark.parametrize("also", ["nothing", "another read", "another copy"])
def test_a_block_that_is_copied_before_it_is_changed(also: str) -> None:
    """The worker reads where it is (10000); it is read (10000) and written (6000) by another
    thread; then the data is (30000). Of two that were read, either may be what is written."""
    world = World()
    world.builder.block(THIN, "dm-1", lower_keys=(SDA, META))
    world.builder.block(SDA, "sda").block(META, "sdb")
    of_kernel(world)
    thin, data, meta = (Block(world, dev) for dev in (THIN, SDA, META))
    thin.queue(2_000, 100, 0xB0)
    meta.queue(3_000, KWORKER, 0xC0, sector=64, flags=0, kernel=1)
    place = {"dev": META, "sector": 64, "size_bytes": 8192, "flags": 0}
    world.emit("block_rq_issue", 3_200, KWORKER, request_key=0xC1, bio_key=0xC0, **place)
    world.emit("block_rq_complete", 13_200, 0, request_key=0xC1, bio_key=0xC0, **place)
    resume(world, KWORKER, 3_400, 13_300, 13_400)
    resume(world, COPIER, 600, 14_000, 14_100, KWORKER, context=WAKE_THREAD, state=IDLE)
    resume(world, KWORKER, 14_050, 52_000, 52_100, COPIER, context=WAKE_THREAD, state=IDLE)
    done = copied(data, 15_000, 8192, 0xE0, PLACE)
    if also == "another copy":
        assert copied(data, 15_000, 16384, 0xE8, 65536, rests=False) == done
    elif also == "another read":
        data.queue(15_100, COPIER, 0xE8, sector=16384, size=65536, flags=0, kernel=1)
        place = {"dev": SDA, "sector": 16384, "size_bytes": 65536, "flags": 0}
        world.emit("block_rq_issue", 15_300, COPIER, request_key=0xE9, bio_key=0xE8, **place)
        world.emit("block_rq_complete", 25_300, 0, request_key=0xE9, bio_key=0xE8, **place)
    data.take_from(THIN, done + 2_000, KWORKER, 0xB1, sector=PLACE)
    data.queue(done + 2_020, KWORKER, 0xB1, sector=PLACE, kernel=1)
    data.request(done + 3_000, done + 33_000, 0xB2, 0xB1, sector=PLACE)
    thin.complete(done + 34_000, 0xB0)
    one_write(world, THIN, done + 34_500)
    (account,) = accounts(told(world))[100]
    assert account["device.data"] == 6_000 + 30_000
    # What is behind that which is read is known as far as that is.
    assert account.get("device.read", 0) == (20_000 if also == "nothing" else 0)


@pytest.mark.parametrize("how", ["interrupted", "itself"])
def test_who_says_that_it_is_complete(how: str) -> None:
    """Whom the disk's interrupt came upon had written something else there: it does not tell that
    anything had waited for that. If it had slept since, it is at it itself."""
    world, thin, _, data, meta = on_thin()
    thin.queue(2_000, 100, 0xB0)
    data.queue(2_500, 100, 0xB1, sector=PLACE)
    meta.queue(5_000, KWORKER, 0xC0, sector=64, kernel=1, flags=WRITE)
    meta.request(5_500, 15_500, 0xD0, 0xC0, sector=64)
    data.request(3_000, 33_000, 0xB2, 0xB1, sector=PLACE, tid=100, by=KWORKER)
    if how == "itself":
        resume(world, KWORKER, 33_050, 33_100, 33_200)
    world.emit("block_bio_complete", 33_300, KWORKER, bio_key=0xB0, sector=8, dev=THIN,
               size_bytes=8192, flags=DATA)  # fmt: skip
    one_write(world, THIN, 34_000)
    breakdown = told(world)
    assert accounts(breakdown)[100][0]["device.data"] == 30_000
    ties = {"key": 2, "time": 1} if how == "interrupted" else {"key": 3}
    assert breakdown.quality.ties == ties


@pytest.mark.parametrize(
    ("name", "flags", "waited"),
    [
        ("md9", WRITE, True),
        ("bcache0", FLUSH, True),
        ("bcache0", WRITE, False),
        ("dm-1", FLUSH, False),
    ],
)
def test_what_is_logged_for_several_at_once(name: str, flags: int, *, waited: bool) -> None:
    """In one go for two, both of which are complete by then; the first to end need not be the only
    one. What a cache writes back is for neither."""
    world = World()
    world.builder.block(THIN, name, lower_keys=(SDA,)).block(SDA, "sda")
    above, log = Block(world, THIN), Block(world, SDA)
    for number in range(2):
        above.queue(2_000 + 100 * number, 100 + number, 0xB0 + number, sector=8 + 64 * number)
    # It reads before what it needs for one of them: that does not pass it on.
    log.take_from(THIN, 3_000, KWORKER, 0xE0, sector=2_000, flags=0)
    log.queue(3_100, KWORKER, 0xE0, sector=2_000, flags=0, kernel=1)
    log.queue(5_000, KWORKER, 0xC0, sector=9_000, size=16_384, flags=flags, kernel=1)
    log.request(5_500, 35_500, 0xD0, 0xC0, sector=9_000, size=16_384)
    for number in range(2):
        above.complete(36_000 + 100 * number, 0xB0 + number)
        one_write(world, THIN, 37_000, tid=100 + number)
    world.emit("task", 100, KWORKER, tgid=KWORKER, subject_tid=KWORKER, process=b"md9_raid5")
    world.emit("task", 200, 100, tgid=100, subject_tid=100, process=b"writer", cgroup=0)
    breakdown = told(world)
    found = accounts(breakdown)
    times = [found[100 + number][0].get("device.data", 0) for number in range(2)]
    assert times == ([30_000, 30_000] if waited else [30_000, 0])
    row = [layer.row for layer in breakdown.layers].index("device.data")
    who = set(breakdown.behind.who[breakdown.behind.layer == row].tolist())
    assert {breakdown.behind.names[one].process for one in who} == {"writer"}


@pytest.mark.parametrize("known", [True, False])
def test_what_a_snapshot_keeps_of_what_is_overwritten(*, known: bool) -> None:
    """Two write at once: each chunk is read where it lies and written to the store, and both are
    noted there behind that. So both wait for all of it, and so does who writes to the snapshot."""
    world = World()
    world.builder.block(THIN, "dm-1", lower_keys=(SDA,), store_keys=(META,) * known)
    world.builder.block(SDA, "sda").block(META, "sdb")
    world.builder.block(SNAPSHOT, "dm-2", lower_keys=(SDA, META))
    origin, data, store, snapshot = (Block(world, dev) for dev in (THIN, SDA, META, SNAPSHOT))
    of_kernel(world)
    snapshot.queue(2_200, 102, 0xB4, sector=300)
    for number in range(2):
        place, later = {"sector": 8 + 64 * number}, 100 * number
        origin.queue(2_000 + later, 100 + number, 0xB0 + number, **place)
        data.queue(3_000 + later, COPIER, 0xE0 + number, flags=0, kernel=1, **place)
        data.request(3_100 + later, 13_100 + later, 0xF0 + number, 0xE0 + number, **place)
        store.queue(14_000 + later, COPIER, 0xC0 + number, flags=WRITE, kernel=1, sector=number)
        store.request(14_100 + later, 24_100 + later, 0xD0 + number, 0xC0 + number, sector=number)
    store.queue(25_000, KWORKER, 0xC2, sector=5_000, flags=WRITE, kernel=1)
    store.request(25_100, 35_100, 0xD2, 0xC2, sector=5_000)
    for number in range(2):
        place, later = {"sector": 8 + 64 * number}, 100 * number
        data.queue(36_000 + later, COPIER, 0xB8 + number, kernel=1, **place)
        data.request(36_100 + later, 46_100 + later, 0xA0 + number, 0xB8 + number, **place)
        origin.complete(46_200 + later, 0xB0 + number)
        one_write(world, THIN, 48_000 + later, tid=100 + number)
    store.queue(36_500, COPIER, 0xB5, kernel=1, sector=7_000)
    store.request(36_600, 46_600, 0xA4, 0xB5, sector=7_000)
    snapshot.complete(46_700, 0xB4)
    one_write(world, SNAPSHOT, 48_500, tid=102)
    found = accounts(told(world))
    rows = ("device.read", "device.data", "block.stacked")
    assert found[102][0].get("device.read", 0) == (10_100 if known else 0)
    for number in range(2):
        times = tuple(found[100 + number][0].get(row, 0) for row in rows)
        assert times == ((10_100, 30_200, 3_500) if known else (0, 10_000, 34_100))


@pytest.mark.parametrize("asks", [True, False])
def test_what_a_snapshot_notes_while_its_origin_is_written(*, asks: bool) -> None:
    """Until that is over nothing is copied (10000 and 10000), also for who came meanwhile. What
    else was under way by then is not waited for."""
    world = World()
    world.builder.block(THIN, "dm-1", lower_keys=(SDA,), store_keys=(META,))
    world.builder.block(SDA, "sda").block(META, "sdb")
    origin, data, store = (Block(world, dev) for dev in (THIN, SDA, META))
    of_kernel(world)
    store.queue(500, COPIER, 0xC0, sector=64, kernel=1, flags=FLUSH | FUA if asks else WRITE)
    store.request(1_500, 22_000, 0xD0, 0xC0, sector=64)
    origin.queue(2_000, 100, 0xB0)
    data.queue(23_000, COPIER, 0xE0, flags=0, kernel=1)
    data.request(23_000, 33_000, 0xF0, 0xE0)
    store.queue(34_000, COPIER, 0xC1, flags=WRITE, kernel=1, sector=72)
    store.request(34_000, 44_000, 0xD1, 0xC1, sector=72)
    data.queue(45_000, COPIER, 0xB1, kernel=1)
    data.request(45_000, 65_000, 0xD2, 0xB1)
    origin.complete(65_000, 0xB0)
    one_write(world, THIN, 65_000)
    account = accounts(told(world))[100][0]
    times = [account.get(row, 0) for row in ("device.read", "device.data", "block.stacked")]
    assert times == [10_000, 30_000 + 20_000 * asks, 3_000 + 20_000 * (not asks)]


def on_mirror(*, known: bool) -> tuple[World, Block, Block, tuple[Block, Block]]:
    """A mirror, its log, and its disks; ``known``: it is told where it lies on them."""
    world, other = World(), device(8, 32)
    striping = (Striping(0, 1, ((SDA, BEHIND), (other, 0))),) if known else ()
    world.builder.block(THIN, "dm-1", lower_keys=(META, SDA, other), striping=striping)
    world.builder.block(SDA, "sda").block(META, "sdb").block(other, "sdc")
    of_kernel(world)
    return world, Block(world, THIN), Block(world, META), (Block(world, SDA), Block(world, other))


def logs(log: Block, begin: int, end: int, bio: int) -> None:
    """A mirror's worker, which waits for that."""
    log.queue(begin - 100, KWORKER, bio, sector=0, size=1536, kernel=1, flags=WRITE)
    log.request(begin, end, bio + 0x100, bio, sector=0, size=1536)
    resume(log.world, KWORKER, begin + 10, end + 50, end + 60)


@pytest.mark.parametrize("known", [True, False])
def test_what_waits_in_a_mirrors_list_while_its_worker_logs(*, known: bool) -> None:
    """The worker notes which region is written to (10000), then writes that to both disks (20000
    and 30000), and goes on with what came meanwhile. What it notes then nobody waits for whose data
    is on its way."""
    world, mirror, log, disks = on_mirror(known=known)
    resume(world, KWORKER, 600, 2_500, 2_600, state=IDLE)
    mirror.queue(2_000, 100, 0xB0)
    logs(log, 3_000, 13_000, 0xC0)
    mirror.queue(5_000, OTHER, 0xB1, sector=264)
    for number, (begin, end) in enumerate(((14_000, 34_000), (26_000, 56_000))):
        for disk, block in enumerate(disks):
            place = {"sector": (8, 264)[number] + BEHIND * (not disk)}
            bio = 0xE0 + 2 * number + disk
            block.queue(begin, KWORKER, bio, kernel=1, **place)
            block.request(begin, end - 10 * disk, bio + 0x100, bio, **place)
        mirror.complete(end, 0xB0 + number)
    logs(log, 15_000, 25_000, 0xC1)
    one_write(world, THIN, 34_000)
    one_write(world, THIN, 56_000, tid=OTHER, off=6_000)
    found = accounts(told(world))
    assert found[100][0]["device.data"] == 10_000 + 20_000
    waited = 13_000 - 5_000 + 10_000 if known else 0
    assert found[OTHER][0].get("device.data", 0) == waited + 30_000


@pytest.mark.parametrize("known", [True, False])
def test_a_device_of_several_mirrors_has_the_data_of_each(*, known: bool) -> None:
    """Its second half is on other places of the same disks: what is written first there is not for
    who writes to the first half, and ends later. But a flush is of all of them."""
    world, other = World(), device(8, 32)
    disks, half = (SDA, other), 8192
    parts = tuple(
        Striping(0, 1, ((SDA, BEHIND + first), (other, half - first)), first, half)
        for first in (0, half)
    )
    world.builder.block(THIN, "dm-1", lower_keys=disks, striping=parts if known else ())
    world.builder.block(SDA, "sda").block(other, "sdc")
    of_kernel(world)
    mirror = Block(world, THIN)
    mirror.queue(2_000, 100, 0xB0)
    mirror.queue(2_100, OTHER, 0xB1, sector=half + 8)
    for number, (begin, end) in enumerate(((20_000, 30_000), (3_000, 13_000))):
        for disk, key in enumerate(disks):
            place = 8 + (half - number * half if disk else BEHIND + number * half)
            bio, block = 0xE0 + 2 * number + disk, Block(world, key)
            block.queue(begin - 100, KWORKER, bio, kernel=1, sector=place)
            block.request(begin, end, bio + 0x100, bio, sector=place)
    mirror.complete(30_000, 0xB0)
    mirror.complete(40_000, 0xB1)
    one_write(world, THIN, 30_000)
    one_write(world, THIN, 40_000, tid=OTHER)
    found = accounts(told(world))
    times = [found[tid][0].get("device.data", 0) for tid in (100, OTHER)]
    assert times == [10_000 if known else 20_000, 10_000]


def test_a_flush_has_one_of_each_of_a_mirrors_disks() -> None:
    """Both are over on the fast disk before the first one is on the slow one."""
    world, mirror, _, (fast, slow) = on_mirror(known=True)
    resume(world, KWORKER, 600, 1_800, 1_900, state=IDLE)
    ends = ((6_000, 8_000), (15_000, 25_000))
    for number in range(2):
        mirror.queue(2_000 + number, 100 + number, 0xB0 + number, sector=0, size=0, flags=FLUSH)
        for disk, block in enumerate((fast, slow)):
            begin, bio = (3_000, ends[disk][0] + 10)[number], 0xE0 + 2 * number + disk
            block.queue(3_000 + number, KWORKER, bio, sector=0, size=0, flags=FLUSH, kernel=1)
            block.flush(begin, ends[disk][number], bio + 0x10, bio, bio + 0x20)
        mirror.complete(ends[1][number] + 10, 0xB0 + number, size=0, flags=FLUSH)
    one_write(world, THIN, 15_100)
    one_write(world, THIN, 25_100, tid=OTHER)
    breakdown = told(world)
    assert breakdown.quality.ties == {"key": 2, "place": 4}
    assert not breakdown.quality.background


@pytest.mark.parametrize("known", [True, False])
def test_a_mirror_flushes_its_disks_for_its_log_first(*, known: bool) -> None:
    """Two writers ask for a flush while the disks are flushed before the log is written, which they
    have to wait for, too; only the last flush of each disk is one of theirs."""
    world, mirror, log, disks = on_mirror(known=known)
    resume(world, KWORKER, 600, 1_800, 1_900, state=IDLE)
    for disk, block in enumerate(disks):
        block.queue(2_000 + disk, KWORKER, 0xE0 + disk, sector=0, size=0, flags=FLUSH, kernel=1)
        block.flush(2_100, 12_100, 0xF0 + disk, 0xE0 + disk, 0xF4 + disk)
    resume(world, KWORKER, 2_200, 12_200, 12_300)
    for number in range(2):
        mirror.queue(5_000 + number, 100 + number, 0xB0 + number, sector=0, size=0, flags=FLUSH)
    logs(log, 13_000, 23_000, 0xC0)
    for number, begin in enumerate((24_000, 34_100)):
        for disk, block in enumerate(disks):
            bio = 0xD0 + 2 * number + disk
            block.queue(23_900, KWORKER, bio, sector=0, size=0, flags=FLUSH, kernel=1)
            block.flush(begin, begin + 10_000, 0xF0 + disk, bio, bio + 0x10)
        mirror.complete(begin + 10_000, 0xB0 + number, size=0, flags=FLUSH)
        one_write(world, THIN, begin + 10_000, tid=100 + number, off=6_000)
    found = accounts(told(world))
    rows = ("device.flush", "device.data")
    times = [[found[100 + number][0].get(row, 0) for row in rows] for number in range(2)]
    whole = [[7_100 + 10_000, 10_000], [7_099 + 20_000, 10_000]]
    assert times == (whole if known else [[10_000, 10_000], [20_000, 0]])


def test_a_mirror_flushes_its_disks_before_what_a_journal_commits_with() -> None:
    """Who asks for a flush first has those of the disks that end before its data begins."""
    world, mirror, _, disks = on_mirror(known=True)
    resume(world, KWORKER, 600, 1_800, 1_900, state=IDLE)
    mirror.queue(2_000, 100, 0xB0, flags=WRITE | FLUSH)
    for disk, block in enumerate(disks):
        block.queue(3_000 + disk, KWORKER, 0xE0 + disk, sector=0, size=0, flags=FLUSH, kernel=1)
        block.flush(3_100, 13_100, 0xF0 + disk, 0xE0 + disk, 0xF4 + disk)
    resume(world, KWORKER, 3_200, 13_200, 13_300)
    for disk, block in enumerate(disks):
        place = {"sector": 8 + BEHIND * (not disk)}
        block.queue(14_000, KWORKER, 0xE2 + disk, kernel=1, **place)
        block.request(14_100, 24_100, 0x1E2 + disk, 0xE2 + disk, **place)
    mirror.complete(24_100, 0xB0)
    one_write(world, THIN, 24_100)
    account = accounts(told(world))[100][0]
    assert (account["device.flush"], account["device.data"]) == (10_000, 10_000)


def test_what_an_array_of_device_mappers_reads_for_its_stripes() -> None:
    """md tells no places of such: what its thread reads is for whom it then writes to the same
    place, of whatever disk; what it reads for itself is nobody's."""
    world = World()
    world.builder.block(THIN, "dm-4", lower_keys=(SDA, META)).block(SDA, "sda").block(META, "sdb")
    array, disk, other = Block(world, THIN), Block(world, SDA), Block(world, META)
    of_kernel(world)
    other.queue(1_900, RAID, 0xE9, sector=9_000, flags=0, kernel=1)
    other.request(1_950, 12_000, 0xF9, 0xE9, sector=9_000, tid=RAID)
    for number in range(2):
        tid, place, later = 100 + number, {"sector": 500 + 64 * number}, 20_000 * number
        array.queue(2_000 + later, tid, 0xB0 + number, sector=8 + 64 * number)
        other.queue(3_000 + later, RAID, 0xE0 + number, flags=0, kernel=1, **place)
        other.request(3_100 + later, 13_100 + later, 0xF0 + number, 0xE0 + number, **place)
        disk.queue(14_000 + later, RAID, 0xC0 + number, kernel=1, **place)
        disk.request(14_100 + later, 24_100 + later, 0xD0 + number, 0xC0 + number, **place)
        array.complete(24_500 + later, 0xB0 + number)
        one_write(world, THIN, 25_000 + later, tid=tid, off=2_500 + later)
    breakdown = told(world)
    assert [accounts(breakdown)[100 + number][0]["device.read"] for number in range(2)] == [
        10_000,
        10_000,
    ]
    assert breakdown.quality.ties["place"] == 2
