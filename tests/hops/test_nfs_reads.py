# SPDX-License-Identifier: Apache-2.0
"""Reads of an NFS client, followed to its server with known truth: what each machine held of them,
and whose page cache, or whose disk, they were from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from iostrata.analysis import analyse, timelines
from iostrata.attribute import Choice, summarise
from iostrata.errors import NothingToAnalyse
from iostrata.model import Breakdown, Op
from iostrata.recording import open_recording
from iostrata.report import table
from iostrata.trace.layout import NFS_READ
from tests.reading import EVERY, O_DIRECT, Flight, Reader
from tests.stitch.test_chain import close, summed
from tests.stitch.test_reads import served
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import Clock, World, clock, device

DISK, MOUNT = device(8, 0), device(0, 50)
CONNECTION = 800 << 16 | 2049
RPCIOD, NFSD = 700, 800
PAGE = 4096

OnServer = Callable[[Reader, int, int], None]


def cached(thread: Reader, offset: int, size: int) -> None:
    """The server has all pages."""


def missed(thread: Reader, offset: int, size: int) -> None:
    """Its thread asks the disk for them, and for what comes behind, and waits for its own."""
    own = thread.ask(offset, size, device=70_000)
    thread.ask(offset + size, 8 * size, device=400_000)
    thread.wait(own, "device.read")


def started(thread: Reader, offset: int, size: int) -> None:
    """All is there; what comes behind is asked for, and not waited for."""
    thread.ask(offset + size, 8 * size, device=300_000)


def under_way(flight: Flight) -> OnServer:
    """They are on their way, as another of its threads had asked for them."""

    def waited(thread: Reader, offset: int, size: int) -> None:
        # The disk was at work for the call from its begin on, as it is deeper than the thread.
        thread.account["device.readahead"] += thread.account.pop("svc")
        thread.wait(flight, "device.readahead")

    return waited


def asked_for(
    reader: Reader, mount: int, thread: Reader, xid: int, offset: int, size: int, by: OnServer
) -> Counter[str]:
    """A READ call that a client's thread makes and waits for; what the server, and the way there,
    held of it. ``thread``: the server's; what the client holds is in the reader's account."""
    made = reader.now
    send = made + 900
    there = send + 60_000
    taken = there + 3_000
    thread.now, thread.account = taken, Counter()
    thread.cpu(5_000)
    by(thread, offset, size)
    thread.cpu(400)
    thread.world.emit("svc_call", thread.now, thread.tid, enqueue_ns=there, dequeue_ns=taken,
                      receive_ns=taken + 50, offset_bytes=0, size_bytes=0, xid=xid,
                      connection=CONNECTION, operation=0)  # fmt: skip
    reply = thread.now + 60_000
    ended = reply + 600
    client = reader.world
    key = client.pointer("task", made, ended + 1)
    client.emit("nfs_call", made, reader.tid, call_key=key, inode=reader.inode, dev=mount,
                offset_bytes=offset, size_bytes=size, stable=0, operation=NFS_READ)  # fmt: skip
    client.emit("rpc_call", ended, RPCIOD, call_key=key, send_ns=send, ready_ns=reply,
                reply_ns=reply + 100, xid=xid, connection=CONNECTION)  # fmt: skip
    wake = ended + 1_000
    reader.now = wake + 2_000
    reader._resume(made, wake, RPCIOD)
    reader.account += Counter({
        "rpc.queue": 900, "rpc.reply": 600, "wakeup.interrupt": 1_000, "wakeup.runqueue": 2_000,
    })  # fmt: skip
    return Counter({f"server/{row}": ns for row, ns in thread.account.items()}) + Counter({
        "server/network.there": 60_000, "server/svc.queue": 3_000, "server/network.back": 60_000,
    })  # fmt: skip


@dataclass
class Share:
    """A client with one reader, and its server; each has a clock of its own."""

    clocks: tuple[Clock, Clock] = (int, int)
    xid: int = 5_000
    truth: list[dict[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client, self.server = (World(clock=one) for one in self.clocks)
        for world in (self.client, self.server):
            world.builder.env["reads"] = EVERY
        self.server.builder.block(DISK, "sda")
        self.reader = Reader(self.client, 100, MOUNT, 1_000_000)
        self._threads: dict[int, Reader] = {}

    def thread(self, number: int) -> Reader:
        if number not in self._threads:
            one = Reader(self.server, NFSD + number, DISK, 0, floor="svc", kind=5)
            self._threads[number] = one
        return self._threads[number]

    def read(
        self, offset: int, size: int, by: OnServer, told: str, flags: int = 0, nfsd: int = 0
    ) -> None:
        """A read that asks the server for its pages by one call, and waits for it."""
        reader = self.reader
        reader.enter()
        reader.cpu(500)
        self.xid += 1
        below = asked_for(reader, MOUNT, self.thread(nfsd), self.xid, offset, size, by)
        reader.cpu(700)
        account = below + Counter({f"client/{row}": ns for row, ns in reader.account.items()})
        reader.done(offset, size, told, flags=flags)
        self.truth.append(dict(account))
        reader.now += 10_000

    def in_memory(self, offset: int, size: int) -> None:
        self.reader.cached(offset, size)
        self.reader.served[-1] = "client page cache"
        self.truth.append({"client/read.cached": 1_500})

    def recording(self, path: Path, machines: str = "client server") -> Path:
        path.mkdir(exist_ok=True)
        described = []
        for name in machines.split():
            getattr(self, name).builder.write(path / name)
            described.append({"name": name, "role": name, "directory": name})
        text = {"format": "iostrata.recording/1", "created": "", "machines": described}
        (path / "recording.json").write_text(json.dumps(text))
        return path


def holds(share: Share, path: Path) -> Breakdown:
    found = analyse(open_recording(share.recording(path)), Op.READ)
    conserves(found)
    ((_, mine),) = accounts(found).items()
    assert len(mine) == len(share.truth)
    for one, true in zip(mine, share.truth, strict=True):
        close(summed(one), summed(true))
    assert list(served(found)) == share.reader.served
    return found


CLOCKS = [(int, int), (clock(5_000_000), clock(3_600_000_000_000, 4))]


@pytest.mark.parametrize("clocks", CLOCKS)
def test_whose_page_cache_and_whose_disk(clocks: tuple[Clock, Clock], tmp_path: Path) -> None:
    share = Share(clocks)
    for number in range(12):
        place = number * 64 * PAGE
        share.read(place, 4 * PAGE, missed, "server device")
        share.in_memory(place, PAGE)
        share.read(place + 4 * PAGE, 4 * PAGE, cached, "server page cache")
        share.read(place + 8 * PAGE, 4 * PAGE, started, "server page cache")
        share.in_memory(place + PAGE, PAGE)
    found = holds(share, tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed, crossing.ambiguous) == (36, 36, 0)
    summary = summarise(found, "served")
    assert [(one.name, one.count) for one in summary.served] == [
        ("client page cache", 24), ("server page cache", 24), ("server device", 12),
    ]  # fmt: skip
    text = " ".join(table.render(summary).plain.split())
    assert "served from client page cache 40.0% (24, 1.50 us each), server page cache" in text


def test_what_another_thread_of_the_server_had_asked_for(tmp_path: Path) -> None:
    """Its pages are known by the client's call and the file's number, which the server does not
    tell of a call."""
    share = Share()
    for number in range(4):
        place = number * 64 * PAGE
        first = share.thread(1)
        first.now, first.account = share.reader.now + 20_000, Counter()
        flight = first.ask(place, 4 * PAGE, device=250_000)
        told = "server readahead under way"
        share.read(place, 4 * PAGE, under_way(flight), told, nfsd=2)
        share.read(place + 16 * PAGE, PAGE, missed, "server device", nfsd=3)
    holds(share, tmp_path)


def test_a_file_that_the_server_knows_by_another_number(tmp_path: Path) -> None:
    """Then what its threads waited for says it."""
    share = Share()
    share.reader.inode = 12
    for number in range(3):
        thread = share.thread(number)
        thread.inode = 400 + number
        share.read(number * PAGE, PAGE, missed, "server device", nfsd=number)
        share.read(number * PAGE, PAGE, cached, "server page cache", nfsd=number)
        share.read(number * PAGE, PAGE, started, "server page cache", nfsd=number)
    holds(share, tmp_path)


def test_a_thread_that_slept_for_nobody_knows_what(tmp_path: Path) -> None:
    share = Share()

    def asleep(thread: Reader, offset: int, size: int) -> None:
        thread.sleep(40_000, waker=0, row=None)

    share.read(0, PAGE, cached, "server page cache")
    share.read(PAGE, PAGE, asleep, "not told")
    del share.truth[1]["server/residual"]
    found = analyse(open_recording(share.recording(tmp_path)), Op.READ)
    conserves(found)
    assert list(served(found)) == share.reader.served
    assert found.residual_ns.tolist()[0] == 0
    assert abs(found.residual_ns.tolist()[1] - 40_000) <= 30


def test_past_the_clients_page_cache(tmp_path: Path) -> None:
    """O_DIRECT at the client says nothing of the server's page cache."""
    share = Share()
    for number in range(6):
        place = number * 64 * PAGE
        share.read(place, 4 * PAGE, missed, "server device", flags=O_DIRECT)
        share.read(place, 4 * PAGE, cached, "server page cache", flags=O_DIRECT)
    found = holds(share, tmp_path / "read")
    direct = analyse(open_recording(tmp_path / "read"), Op.DIRECT)
    assert accounts(direct) == accounts(found)


def test_a_server_that_was_not_recorded(tmp_path: Path) -> None:
    """Then it is the server that served, whatever it took."""
    share = Share()
    share.read(0, PAGE, missed, "server")
    share.read(PAGE, PAGE, cached, "server")
    found = analyse(open_recording(share.recording(tmp_path, "client")), Op.READ)
    assert list(served(found)) == share.reader.served


def test_a_server_that_was_not_asked_for_reads(tmp_path: Path) -> None:
    """Its disk's reads are not in its recording: that its page cache had all would be wrong."""
    share = Share()
    share.read(0, PAGE, missed, "server")
    del share.server.builder.env["reads"]
    path = share.recording(tmp_path)
    with pytest.raises(NothingToAnalyse, match="the recording of server holds no reads") as told:
        analyse(open_recording(path), Op.READ)
    assert told.value.hint == "record with --op read"


def test_a_single_read_step_by_step(tmp_path: Path) -> None:
    share = Share()
    share.read(0, PAGE, missed, "server device")
    share.read(0, PAGE, cached, "server page cache")
    seen = timelines(open_recording(share.recording(tmp_path)), Choice(numbers=(1, 2)), op=Op.READ)
    assert [one.served for one in seen.timelines] == share.reader.served
    rows = [step.layer.name for step in seen.timelines[0].steps if step.layer]
    assert rows.index("server/network.there") < rows.index("server/device.read")
    assert rows.index("server/device.read") < rows.index("server/network.back")
