# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what programs ask of disks of Ceph by its library (librbd) in, and its operations.

A request is answered in its own time, and made of operations on objects, whose numbers the OSDs
know. Which request one is of, its place on the disk tells: the library tells nobody. How a disk
lies on its objects is told of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    AsOf,
    Ints,
    at,
    columns_of,
    distinct,
    one_of,
    overlapping,
    pair_key,
)
from iostrata.stitch.calls import Pieces
from iostrata.stitch.rpc import LIBRBD_REQUEST, Calls, calls_elsewhere
from iostrata.stitch.spans import NO_SPANS, SpanList, Spans
from iostrata.stitch.window import Columns, Window, whole
from iostrata.trace import Trace

FOREVER: Final = np.iinfo(np.int64).max - 1
HEADER_BYTES: Final = 1 << 22
"""A disk that the library encrypts (LUKS) lies behind so much, or a multiple of that."""
FEWEST: Final = 3
"""Operations that tell so."""
NAMED, UNNAMED, NUMBER_BITS = 1, 2, 40
"""Beyond all numbers of the kernel's devices are those of disks: a hash of their objects' name, or
where that is not told, when they were first asked for anything."""


@dataclass(frozen=True, eq=False)
class ImageRequests:
    """What was asked of disks: one row each, times in ns; ``end_ns`` -1: not answered.

    ``disk``: which it is, of its process, and ``name``: a hash of what its objects are called by;
    -1: not told. ``again``: it was answered, as another one
    has its completion, and nothing told when.
    """

    key: Ints
    image: Ints
    disk: Ints
    name: Ints
    tid: Ints
    tgid: Ints
    offset_bytes: Ints
    size_bytes: Ints
    flush: NDArray[np.bool_]
    begin_ns: Ints
    end_ns: Ints
    again: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.key)

    @property
    def until_bytes(self) -> Ints:
        return self.offset_bytes + self.size_bytes

    def rows(self, rows: Ints) -> ImageRequests:
        return ImageRequests(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class ImageOperations:
    """Operations, each time that one was sent: one row each, times in ns.

    ``osd``: which answered, -1: nobody did until it was sent again, at ``reply_ns``. ``disk``: as
    requests have it; ``offset_bytes`` (-1: not known), ``size_bytes``: what of that it writes
    or, with ``read``, reads first, and how much in all.
    """

    number: Ints
    client: Ints
    osd: Ints
    tid: Ints
    tgid: Ints
    disk: Ints
    offset_bytes: Ints
    size_bytes: Ints
    read: NDArray[np.bool_]
    send_ns: Ints
    reply_ns: Ints

    def __len__(self) -> int:
        return len(self.number)

    def rows(self, rows: Ints) -> ImageOperations:
        return ImageOperations(**{name: column[rows] for name, column in vars(self).items()})

    @property
    def key(self) -> Ints:
        return pair_key(self.number, self.tgid)

    @property
    def until_bytes(self) -> Ints:
        return self.offset_bytes + self.size_bytes

    @property
    def writes(self) -> NDArray[np.bool_]:
        """Which write to their disk, at a place that is known."""
        return (self.offset_bytes >= 0) & ~self.read


@dataclass(frozen=True, eq=False)
class Images:
    """What programs asked of disks of Ceph: requests, and the operations that they wait for.

    ``operation``, ``request``: rows of both, for each time that one waits for one. ``early``: of
    each operation, whether what it is of was answered before it. ``known``: of each request,
    whether all operations are that it was made of.
    """

    requests: ImageRequests
    operations: ImageOperations
    operation: Ints
    request: Ints
    early: NDArray[np.bool_]
    known: NDArray[np.bool_]

    @property
    def asked(self) -> ImageOperations:
        """Those that write to a disk, or are waited for."""
        made = self.operations
        wanted = made.writes
        wanted[self.operation] = True
        return made.rows(np.flatnonzero(wanted))


def images_of(window: Window) -> Images:
    """Of a window; made once."""
    return window.once(_images_of)


def _images_of(window: Window) -> Images:
    requests, operations = window.once(_requests_of), window.once(_operations_of)
    headers = whole(window.trace).once(_headers)
    operations = _without_headers(operations, headers)
    until = np.where(requests.end_ns >= 0, requests.end_ns, FOREVER)
    begun, sent = requests.begin_ns, operations.send_ns
    placed = np.flatnonzero(operations.writes)
    row, other = overlapping(
        operations.disk[placed], sent[placed], sent[placed] + 1, requests.disk, begun, until
    )
    row = placed[row]
    # Those of neighbours that wait at the same time may be one (librbd's scheduler).
    first = np.maximum(operations.offset_bytes[row], requests.offset_bytes[other])
    last = np.minimum(operations.until_bytes[row], requests.until_bytes[other])
    here = ~requests.flush[other] & (first < last) & (begun[other] <= sent[row])
    row, other, shared = row[here], other[here], (last - first)[here]
    # Of two that write to one place at once, it is not told which it is of.
    several = _summed(row, shared, len(operations)) > operations.size_bytes
    some = ~several[row]
    row, other, shared = row[some], other[some], shared[some]
    answered = np.where(operations.osd[row] >= 0, shared, 0)
    size = _summed(other, answered, len(requests))
    in_time = operations.reply_ns[row] <= until[other]
    written = np.zeros(len(operations), np.bool_)
    written[row[in_time]] = True
    early = (operations.osd >= 0) & ~written & ~several & operations.writes
    began = np.full(len(operations), FOREVER)
    np.minimum.at(began, row, begun[other])
    began[began == FOREVER] = 0
    awaited = [(row[in_time], other[in_time])]
    # Who flushes waits for all that was written before, and is on its way.
    flushes = np.flatnonzero(requests.flush)
    row, other = overlapping(
        operations.disk[placed], operations.reply_ns[placed], operations.reply_ns[placed] + 1,
        requests.disk[flushes], begun[flushes], until[flushes],
    )  # fmt: skip
    row, other = placed[row], flushes[other]
    before = began[row] <= begun[other]
    awaited.append((row[before], other[before]))
    awaited.append(_before(requests, operations, _joined(awaited), headers[0]))
    # What its disk's cache has answered was made of nothing yet.
    cached = one_of(requests.disk, distinct(operations.disk[early]))
    known = (requests.disk >= 0) & (requests.flush | cached | (size >= requests.size_bytes))
    known &= ~_beside(requests, ~known & ~requests.flush, until)
    return Images(requests, operations, *_joined(awaited), early, known)


def image_devices(trace: Trace, pieces: Pieces) -> Ints:
    """The device of each piece; of what was asked of a disk of Ceph by its library, that disk: a
    number that no other device has, and by which ``image_name`` calls it."""
    if not len(trace.points["librbd_request"]):
        return pieces.device_key
    requests = images_of(whole(trace)).requests
    first, image = np.unique(requests.image, return_index=True, return_inverse=True)[1:]
    turn = np.argsort(np.argsort(requests.begin_ns[first], kind="stable"), kind="stable")
    unnamed = (UNNAMED << NUMBER_BITS) + turn[image] + 1
    disk = np.where(requests.name >= 0, (NAMED << NUMBER_BITS) + requests.name, unnamed)
    asked = AsOf(requests.key, requests.begin_ns).at_or_before(pieces.request_key, pieces.begin_ns)
    own = (pieces.device_key == 0) & (at(requests.begin_ns, asked) == pieces.begin_ns)
    return np.where(own & (asked >= 0), at(disk, asked), pieces.device_key)


def image_name(device_key: int) -> str:
    """What a disk of ``image_devices`` is called; empty: it is none of those."""
    kind, number = divmod(device_key, 1 << NUMBER_BITS)
    if kind == UNNAMED:
        return f"unknown image {number}"
    return f"image {number:08x}" if kind == NAMED else ""


def _summed(row: Ints, numbers: Ints, count: int) -> Ints:
    """Of each of so many rows, what it has of the numbers."""
    found = np.zeros(count, np.int64)
    np.add.at(found, row, numbers)
    return found


def _headers(window: Window) -> tuple[Ints, Ints]:
    """Disks that lie behind a header, and how long that is.

    While an operation was on its way, a request of its length was, which is so far in front of it
    on the disk: at one distance, that most of the operations have.
    """
    requests, operations = window.once(_requests_of), window.once(_operations_of)
    until = np.where(requests.end_ns >= 0, requests.end_ns, -1)
    rows = np.flatnonzero(operations.writes)
    sent = operations.send_ns[rows]
    row, other = overlapping(
        operations.disk[rows], sent, sent + 1, requests.disk, requests.begin_ns, until
    )
    row = rows[row]
    fits = ~requests.flush[other] & (operations.reply_ns[row] <= until[other])
    fits &= operations.size_bytes[row] == requests.size_bytes[other]
    row, other = row[fits], other[fits]
    disk, away = operations.disk[row], operations.offset_bytes[row] - requests.offset_bytes[other]
    found: dict[int, int] = {}
    for number in distinct(disk).tolist():
        mine = disk == number
        sizes, votes = np.unique(away[mine], return_counts=True)
        size, most = int(sizes[votes.argmax()]), int(votes.max())
        told = 2 * most > len(distinct(row[mine])) and most >= FEWEST
        if told and size > 0 and size % HEADER_BYTES == 0:
            found[number] = size
    return np.array([*found], np.int64), np.array([*found.values()], np.int64)


def _without_headers(operations: ImageOperations, headers: tuple[Ints, Ints]) -> ImageOperations:
    """Their places as requests have them; what writes to a header has none."""
    disks, sizes = headers
    if not len(disks):
        return operations
    header = at(sizes, AsOf(disks, disks * 0).at_or_after(operations.disk, operations.disk * 0))
    place = operations.offset_bytes - np.maximum(header, 0)
    return replace(operations, offset_bytes=np.maximum(place, -1))


Pairs = tuple[Ints, Ints]
"""Rows of operations, and of the requests that wait for them."""


def _joined(pairs: Sequence[Pairs]) -> Pairs:
    operation, request = zip(*pairs, strict=True)
    return np.concatenate(operation), np.concatenate(request)


def _before(
    requests: ImageRequests, operations: ImageOperations, own: Pairs, encrypted: Ints
) -> Pairs:
    """What a library asks for a disk itself (its objects' map, a lock, its journal, what a parent
    has, or the disk where that is encrypted), where none of what a request has to wait for is on
    its way: before that can be sent.
    """
    disks = distinct(requests.disk[requests.disk >= 0])
    mine, read = one_of(operations.disk, disks), operations.read
    process = one_of(operations.tgid, distinct(requests.tgid))
    # The rest of a block that is encrypted as a whole is read before a part of it is written.
    rest = mine & read & one_of(operations.disk, encrypted)
    none = np.where(mine, (operations.offset_bytes < 0) & ~read, read & process)
    some, begun = np.flatnonzero(none | rest), requests.begin_ns
    done = np.flatnonzero(requests.end_ns >= 0)
    sent, answered = operations.send_ns[some], operations.reply_ns[some]
    row, other = overlapping(
        operations.tgid[some], sent, answered, requests.tgid[done], begun[done],
        requests.end_ns[done],
    )  # fmt: skip
    row, other = some[row], done[other]
    fits = ~mine[row] | (operations.disk[row] == requests.disk[other])
    fits &= begun[other] <= operations.send_ns[row]
    fits &= ~rest[row] | (
        (operations.offset_bytes[row] < requests.until_bytes[other])
        & (operations.until_bytes[row] > requests.offset_bytes[other])
    )
    fits &= operations.reply_ns[row] <= requests.end_ns[other]
    row, other = row[fits], other[fits]
    # While its own are on their way, it waits for these.
    made, whose = own
    pair, _ = overlapping(
        other, operations.send_ns[row], operations.reply_ns[row], whose, operations.send_ns[made],
        operations.reply_ns[made],
    )  # fmt: skip
    idle = np.ones(len(row), np.bool_)
    idle[pair] = False
    return row[idle], other[idle]


def _beside(requests: ImageRequests, some: NDArray[np.bool_], until: Ints) -> NDArray[np.bool_]:
    """Which of the requests flush while one of some has not been answered."""
    flushes, others = np.flatnonzero(requests.flush), np.flatnonzero(some)
    found = np.zeros(len(requests), np.bool_)
    row, _ = overlapping(
        requests.image[flushes], requests.begin_ns[flushes], until[flushes],
        requests.image[others], requests.begin_ns[others], until[others],
    )  # fmt: skip
    found[flushes[row]] = True
    return found


def _disk(tgid: Ints, image: Ints) -> Ints:
    return pair_key(tgid, image)


def _layouts(trace: Trace) -> Columns:
    """How disks lie on their objects, as was told now and then."""
    return columns_of(trace.points["librbd_image"], "tgid", "image_key", "image", "object_bytes",
                      "stripe_bytes", "stripe_objects")  # fmt: skip


def _requests_of(window: Window) -> ImageRequests:
    asked = window.columns("librbd_request", "tid", "tgid", "request_key", "image_key",
                           "offset_bytes", "size_bytes", "flushes")  # fmt: skip
    done = window.columns("librbd_done", "request_key")
    found = AsOf(done["request_key"], done["time_ns"]).at_or_after(
        asked["request_key"], asked["time_ns"]
    )
    # A completion's place in memory is used again, also of what nothing told the end of.
    until = AsOf(asked["request_key"], asked["time_ns"]).following()
    ended = (found >= 0) & (at(done["time_ns"], found) <= until)
    layouts = _layouts(window.trace)
    told = AsOf(layouts["image_key"], layouts["time_ns"])
    layout = told.at_or_before(asked["image_key"], asked["time_ns"])
    # Of one that was open before, as it is told again.
    after = told.at_or_after(asked["image_key"], asked["time_ns"])
    layout = np.where(layout >= 0, layout, after)
    disk = _disk(asked["tgid"], at(layouts["image"], layout))
    return ImageRequests(
        key=asked["request_key"],
        image=asked["image_key"],
        disk=np.where(layout >= 0, disk, -1),
        name=at(layouts["image"], layout),
        tid=asked["tid"],
        tgid=asked["tgid"],
        offset_bytes=asked["offset_bytes"],
        size_bytes=asked["size_bytes"],
        flush=asked["flushes"] > 0,
        begin_ns=asked["time_ns"],
        end_ns=np.where(ended, at(done["time_ns"], found), -1),
        again=~ended & (until < NEVER),
    )


def _operations_of(window: Window) -> ImageOperations:
    """Those that were answered in the end."""
    columns = ("tid", "tgid", "number", "client", "object", "offset_bytes", "size_bytes", "image")
    points = ("librbd_sent", "librbd_sent_read")
    parts = [window.columns(point, *columns) for point in points]
    sent = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    reading = np.repeat([False, True], [len(part["time_ns"]) for part in parts])
    answered = window.columns("librbd_answered", "tgid", "number", "osd_number")
    key = pair_key(sent["number"], sent["tgid"])
    answer = AsOf(pair_key(answered["number"], answered["tgid"]), answered["time_ns"])
    found = answer.at_or_after(key, sent["time_ns"])
    later = AsOf(key, sent["time_ns"]).at_or_after(key, sent["time_ns"] + 1)
    again = (later >= 0) & (at(found, later) == found)
    # Two clients of one process number theirs alike.
    mixed = found[again & (at(sent["client"], later) != sent["client"])]
    rows = np.flatnonzero((found >= 0) & ~np.isin(found, mixed))
    told, found = {name: column[rows] for name, column in sent.items()}, found[rows]
    again, next_ns = again[rows], at(sent["time_ns"], later[rows])
    return ImageOperations(
        number=told["number"],
        client=told["client"],
        osd=np.where(again, -1, answered["osd_number"][found]),
        tid=told["tid"],
        tgid=told["tgid"],
        disk=_disk(told["tgid"], told["image"]),
        offset_bytes=_places(window.trace, told),
        size_bytes=told["size_bytes"],
        read=reading[rows],
        send_ns=told["time_ns"],
        reply_ns=np.where(again, next_ns, answered["time_ns"][found]),
    )


def _places(trace: Trace, sent: Columns) -> Ints:
    """Where on its disk each begins to write, -1: nowhere, or how that lies is not told.

    Stripes lie side by side, one in each of some objects, then the next one in each.
    """
    layouts = _layouts(trace)
    told = AsOf(_disk(layouts["tgid"], layouts["image"]), layouts["time_ns"])
    disk = _disk(sent["tgid"], sent["image"])
    found = told.at_or_before(disk, sent["time_ns"])
    found = np.where(found >= 0, found, told.at_or_after(disk, sent["time_ns"]))
    stripe, objects, size = (
        np.maximum(at(layouts[name], found), 1)
        for name in ("stripe_bytes", "stripe_objects", "object_bytes")
    )
    turn = sent["object"] // objects * (size // stripe) + sent["offset_bytes"] // stripe
    number = turn * objects + sent["object"] % objects
    place = number * stripe + sent["offset_bytes"] % stripe
    return np.where((found >= 0) & (sent["size_bytes"] > 0), place, -1)


def image_calls_of(window: Window) -> Calls:
    """Each as a call of the thread that sent it, once for each request that waits for it.

    ``inode``: that one.
    """
    images = images_of(window)
    made, keys = images.operations.rows(images.operation), images.requests.key
    return calls_elsewhere(
        key=made.key,
        tid=made.tid,
        xid=made.number,
        send_ns=made.send_ns,
        reply_ns=made.reply_ns,
        operation=np.full(len(made), LIBRBD_REQUEST),
        inode=keys[images.request],
    )


def waiting_for_images(window: Window, calls: Calls, caller: Ints) -> Ints:
    """The piece that waits for each call: of the library's calls the request that does."""
    if not len(calls):
        return caller
    pieces = window.pieces
    piece = AsOf(pieces.request_key, pieces.begin_ns).at_or_before(calls.inode, calls.reply_ns)
    mine = (calls.inode != 0) & (at(pieces.end_ns, piece) >= calls.reply_ns)
    return np.where(calls.operation >= LIBRBD_REQUEST, np.where(mine, piece, -1), caller)


def spans_of_images(window: Window) -> Spans:
    """The floor of each request: it is with the library, or with whom that asks, as well."""
    if not len(window.trace.points["librbd_request"]):
        return NO_SPANS
    spans, pieces, images = SpanList(), window.pieces, images_of(window)
    requests = images.requests
    found = AsOf(pieces.request_key, pieces.begin_ns).at_or_before(requests.key, requests.begin_ns)
    own = (found >= 0) & (at(pieces.begin_ns, found) == requests.begin_ns)
    for rank, some in (("librbd", images.known), ("librbd.unknown", ~images.known)):
        spans.add(np.where(own & some, found, -1), rank, requests.begin_ns, requests.end_ns)
    return spans.collect()
