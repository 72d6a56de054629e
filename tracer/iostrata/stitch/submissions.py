# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: io_uring and libaio events in, their requests out.

An asynchronous request is one piece of its own, from its submission to its
completion as the caller sees it (libaio: until io_getevents returned it).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    AsOf,
    Ints,
    at,
    columns_of,
    integers,
    joined,
    numbers,
    one_of,
)
from iostrata.stitch.calls import (
    METHOD,
    NO_SYNC,
    PLAIN,
    SYNC_FILE_RANGE_WAITS,
    Operations,
    Pieces,
    allocated,
    appends,
    method_of_cut,
    method_of_write,
)
from iostrata.stitch.completions import completion_of, completions, files_of, kept
from iostrata.stitch.copied import Told, completion_of_copied
from iostrata.stitch.cut import LOST, NO_ROOM, OVER, UNCOLLECTED, UNFINISHED
from iostrata.stitch.durability import FILE, RANGE
from iostrata.stitch.enters import enters_of
from iostrata.stitch.links import links_of
from iostrata.stitch.opcodes import (
    AIO_FDSYNC,
    AIO_FSYNC,
    AIO_READS,
    AIO_WRITES,
    RWF_OF_LINKED,
    RWF_OF_RECORDER,
    RWF_OF_SILENT,
    URING_CHANGES,
    URING_FALLOCATE,
    URING_FSYNC,
    URING_FSYNC_DATASYNC,
    URING_FTRUNCATE,
    URING_READS,
    URING_SPLICE,
    URING_SYNC_FILE_RANGE,
    URING_WRITES,
)
from iostrata.stitch.syncs import SYNCS, WHOLE
from iostrata.stitch.taken import Taken, taken_up
from iostrata.stitch.window import whole
from iostrata.trace import Points, Trace

IO_URING, LIBAIO = 1, 2

COMPLETES_UNASKED: Final = b"aio_complete_kernel"
MAY_BE_KEPT: Final = -2
"""As an end: it may be one of those for whose completion its ring had no room."""


class _Engine(NamedTuple):
    """The points of its requests, their key there, and what syncs, writes or reads."""

    submit: str
    complete: str
    key: str
    syncs: tuple[int, ...]
    writes: tuple[int, ...]
    reads: tuple[int, ...]


_ENGINES: Final = (
    _Engine(
        "io_uring_submit_req", "io_uring_complete", "request_key",
        (URING_FSYNC, URING_SYNC_FILE_RANGE), URING_WRITES, URING_READS,
    ),
    _Engine(
        "aio_submit", "aio_complete", "iocb_key", (AIO_FSYNC, AIO_FDSYNC), AIO_WRITES, AIO_READS
    ),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Submissions:
    """Requests that were submitted to write, to make durable or to read: one row each.

    ``begin_ns``, ``end_ns``: as the submitter sees it, -1, ``MAY_BE_KEPT``: no completion here.
    What is linked begins when what it waits for is complete: see ``links``.
    ``method``: code into ``METHODS``, ``PLAIN``: a write that nothing makes durable by
    itself. ``flush``: it only makes durable; ``offset_bytes`` and ``size_bytes`` are of
    what it is asked for then, 0: to the end. ``offset_bytes`` -1: not known.
    ``effect_ns``: as in ``Operations``. ``read``: it reads; ``method`` says nothing then.
    ``changes``: it writes no data, and is here where it makes durable what else it did.
    ``exchanged``: its completion may be another's, and that one has its own.
    """

    engine: Ints
    key: Ints
    begin_ns: Ints
    end_ns: Ints
    effect_ns: Ints
    tid: Ints
    tgid: Ints
    device_key: Ints
    inode: Ints
    offset_bytes: Ints
    size_bytes: Ints
    method: Ints
    flush: NDArray[np.bool_]
    result: Ints
    read: NDArray[np.bool_]
    changes: NDArray[np.bool_]
    open_flags: Ints
    exchanged: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.key)

    def rows(self, rows: Ints) -> Submissions:
        return Submissions(**{name: column[rows] for name, column in vars(self).items()})


def submissions_of(trace: Trace, reads: bool = False) -> Submissions:
    """The requests of both engines; those that read if they are asked for."""
    found = Submissions(**joined((_of_uring(trace), _of_aio(trace))))
    return found if reads or not found.read.any() else found.rows(np.flatnonzero(~found.read))


def operations_of_requests(trace: Trace, found: Submissions) -> tuple[Operations, Counter[str]]:
    """What the requests of both engines wrote or made durable, as far as their ends are known.

    Also how many synchronous ones have no completion here, by reason.
    """
    ended = found.rows(np.flatnonzero(found.end_ns >= 0))
    offset = ended.offset_bytes
    part = (offset > 0) | ((offset == 0) & (ended.size_bytes > 0))
    scope = np.where(ended.flush, np.where(part, RANGE, FILE), NO_SYNC)
    done = Operations(
        begin_ns=ended.begin_ns,
        end_ns=ended.end_ns,
        effect_ns=ended.effect_ns,
        tid=ended.tid,
        tgid=ended.tgid,
        device_key=ended.device_key,
        inode=ended.inode,
        offset_bytes=offset,
        size_bytes=np.where(ended.flush, ended.size_bytes, np.maximum(ended.result, 0)),
        method=ended.method,
        engine=ended.engine,
        scope=scope,
        failed=ended.result < 0,
        request_key=ended.key,
        generation=np.zeros(len(ended), np.int64),
        birth=np.zeros(len(ended), np.int64),
    )
    synchronous = found.method != PLAIN
    unfinished = unfinished_of(trace, found, found.key, synchronous)
    # What wrote nothing did not have to be durable.
    some = ended.flush | ended.changes | (ended.result != 0)
    return done.rows(np.flatnonzero(some)), unfinished


class _Ending(Protocol):
    """What of requests their ends are looked for by: columns as of ``Submissions``."""

    @property
    def engine(self) -> Ints: ...
    @property
    def tgid(self) -> Ints: ...
    @property
    def begin_ns(self) -> Ints: ...
    @property
    def end_ns(self) -> Ints: ...


def unfinished_of(trace: Trace, found: _Ending, key: Ints, some: NDArray[np.bool_]) -> Counter[str]:
    """How many requests, of ``some`` of those given, have no completion here, by reason.

    They are under way at the end, or were over; or a loss behind their begin may have it; or the
    ring of io_uring had no room, and nothing tells whose a completion is; or the process reads
    libaio's ring itself, where nothing but the kernel's function tells of it, at which nobody
    looked.
    """
    some = some & (found.end_ns < 0)
    if not some.any():
        return Counter()
    probes = trace.points["probe"]
    errors = dict(zip(probes["program"].tolist(), probes["error"].tolist(), strict=True))
    uncollected = some & (found.engine == LIBAIO) & (errors.get(COMPLETES_UNASKED) != 0)
    if uncollected.any():
        done = columns_of(trace.points["aio_complete"], "tid")
        uncollected &= ~one_of(found.tgid, process_of(trace, done["tid"], done["time_ns"]))
    no_room = some & (found.end_ns == MAY_BE_KEPT)
    rest = some & ~uncollected & ~no_room
    lost = rest & trace.losses.touch(found.begin_ns, np.full(len(rest), trace.end_ns))
    rest &= ~lost
    over = rest & _was_over(found, key)
    return +Counter({
        LOST: int(np.count_nonzero(lost)),
        UNFINISHED: int(np.count_nonzero(rest & ~over)),
        NO_ROOM: int(np.count_nonzero(no_room)),
        OVER: int(np.count_nonzero(over)),
        UNCOLLECTED: int(np.count_nonzero(uncollected)),
    })  # fmt: skip


def _was_over(found: _Ending, key: Ints) -> NDArray[np.bool_]:
    """Which were complete before the end, seen or not: their key was used again; of libaio, which
    may use one again at once, by one whose completion was seen."""
    used_again = AsOf(key, found.begin_ns).following() < NEVER
    done = np.flatnonzero(found.end_ns >= 0)
    later = AsOf(key[done], found.begin_ns[done]).at_or_after(key, found.begin_ns + 1) >= 0
    return np.where(found.engine == LIBAIO, later, used_again)


def begun_before(trace: Trace) -> Ints:
    """The process of each synchronous request that was submitted before the trace."""

    def synchronous(done: dict[str, Ints], engine: _Engine) -> NDArray[np.bool_]:
        opcode, rwf, result = done["opcode"], done["rwf"], done["result"]
        waits = (opcode != URING_SYNC_FILE_RANGE) | ((rwf & SYNC_FILE_RANGE_WAITS) != 0)
        durable = method_of_write(done["open_flags"], rwf) != PLAIN
        some: NDArray[np.bool_] = one_of(opcode, engine.syncs) & waits & (result == 0)
        some |= one_of(opcode, engine.writes) & durable & (result > 0)
        return some

    return _begun_before(trace, synchronous)


def transfers_begun_before(
    trace: Trace, wanted: Callable[[Ints, NDArray[np.bool_]], NDArray[np.bool_]]
) -> Ints:
    """The process of each request that was submitted before the trace and has read or written:
    those ``wanted`` by the flags of their files, and whether they read."""

    def transferred(done: dict[str, Ints], engine: _Engine) -> NDArray[np.bool_]:
        read, result = one_of(done["opcode"], engine.reads), done["result"]
        some: NDArray[np.bool_] = (read | one_of(done["opcode"], engine.writes)) & (result > 0)
        return some & wanted(done["open_flags"], read)

    return _begun_before(trace, transferred)


def _begun_before(
    trace: Trace, wanted: Callable[[dict[str, Ints], _Engine], NDArray[np.bool_]]
) -> Ints:
    """The process of each request: of its key, a completion is the first that is told, and nothing
    was lost before that."""
    found = []
    for engine in _ENGINES:
        submit, complete, key = engine.submit, engine.complete, engine.key
        # Of libaio, older recorders do not tell what is complete.
        if "opcode" not in trace.points[complete].fields:
            continue
        names = (key, "tid", "open_flags", "opcode", "result", "rwf")
        done = columns_of(trace.points[complete], *names)
        some = wanted(done, engine)
        if not some.any():
            continue
        # io_submit is told as it returns, when another thread may have what is complete.
        when = "enter_ns" if "enter_ns" in trace.points[submit].fields else "time_ns"
        begun = columns_of(trace.points[submit], key, when)
        # At one time, the submission came first.
        time = np.concatenate([begun[when] - 1, done["time_ns"]])
        number = numbers(np.concatenate([begun[key], done[key]]))
        first = np.full(len(time), np.iinfo(np.int64).max)
        np.minimum.at(first, number, time)
        rows = np.flatnonzero(some & (done["time_ns"] == first[number[len(begun[key]) :]]))
        ended = done["time_ns"][rows]
        rows = rows[~trace.losses.touch(np.full(len(rows), trace.begin_ns), ended)]
        found.append(process_of(trace, done["tid"][rows], done["time_ns"][rows]))
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def pieces_of(submitted: Submissions) -> Pieces:
    """Each request as a piece of its own."""
    return Pieces(
        np.arange(len(submitted)), submitted.tid, submitted.begin_ns, submitted.end_ns,
        submitted.device_key, submitted.key,
    )  # fmt: skip


def _of_uring(trace: Trace) -> Submissions:
    told = (
        "tid", "request_key", "inode", "dev", "open_flags", "opcode", "result", "size_bytes", "rwf",
    )  # fmt: skip
    submitted = columns_of(trace.points["io_uring_submit_req"], *told)
    completed = completions(whole(trace), *told)
    done = completion_of(
        submitted["request_key"], submitted["time_ns"], completed["request_key"],
        completed["time_ns"],
    )  # fmt: skip
    opcode, rwf = submitted["opcode"], submitted["rwf"]
    known = files_of(submitted, completed, done)
    allocates = opcode == URING_FALLOCATE
    cuts = opcode == URING_FTRUNCATE
    method = method_of_write(known["open_flags"], np.where(allocates | cuts, 0, rwf))
    if cuts.any():
        method[cuts] = method_of_cut(trace, known, rwf)[cuts]
    if allocates.any():
        method[allocates & ~allocated(trace, known, rwf & ~RWF_OF_RECORDER)] = PLAIN
    method, flush = _syncs_of_uring(opcode, rwf, method)
    complete = at(completed["time_ns"], done)
    begin, end = _around(trace, submitted, complete)
    taken = taken_up(whole(trace), submitted["request_key"], submitted["time_ns"])
    silent = _silent(submitted, done)
    # What had succeeded, as else the next one of its chain had not begun then.
    following = at(taken.begin_ns, silent)
    links = links_of(trace)
    begin[links.row] = links.begin_ns
    unfinished = np.full(len(opcode), -1)
    unfinished[kept(trace).unsure] = MAY_BE_KEPT
    count = len(opcode)
    found = Submissions(
        engine=np.full(count, IO_URING),
        key=submitted["request_key"],
        begin_ns=begin,
        end_ns=np.where(done >= 0, end, np.where(method == PLAIN, following, unfinished)),
        effect_ns=np.where(
            flush,
            _looked(trace, taken, known["inode"], flush),
            np.where(done >= 0, taken.end_ns, following),
        ),
        tid=submitted["tid"],
        tgid=process_of(trace, submitted["tid"], submitted["time_ns"]),
        device_key=known["dev"],
        inode=known["inode"],
        offset_bytes=_place(trace, opcode, appends(known["open_flags"], rwf), done),
        size_bytes=submitted["size_bytes"],
        method=method,
        flush=flush,
        result=np.where(silent >= 0, submitted["size_bytes"], at(completed["result"], done)),
        read=one_of(opcode, URING_READS),
        changes=one_of(opcode, URING_CHANGES) & (method != PLAIN),
        open_flags=known["open_flags"],
        exchanged=np.zeros(count, np.bool_),
    )
    some = flush | found.read | found.changes | one_of(opcode, URING_WRITES)
    found = found.rows(np.flatnonzero(some))
    return Submissions(**joined([found, _refused(trace, completed, done)]))


def _looked(trace: Trace, taken: Taken, inodes: Ints, syncs: NDArray[np.bool_]) -> Ints:
    """When those of the requests that are syncs looked at what there is: as their file system's
    began, in the worker that ran them, or they were taken up, where that is not told."""
    if not (syncs & (taken.worker >= 0)).any():
        # Nothing of file systems' syncs need be read.
        return taken.begin_ns
    tid, inode, enter = [], [], []
    for point in SYNCS:
        extra = ("enter_ns",) if point in WHOLE else ()
        told = columns_of(trace.points[point], "tid", "inode", *extra)
        tid.append(told["tid"])
        inode.append(told["inode"])
        enter.append(told.get("enter_ns", told["time_ns"]))
    by, of, since = (np.concatenate(parts) for parts in (tid, inode, enter))
    last = AsOf(by, since).at_or_before(taken.worker, taken.end_ns)
    own = (at(of, last) == inodes) & (taken.worker >= 0)
    return np.where(own, np.maximum(at(since, last), taken.begin_ns), taken.begin_ns)


def _silent(submitted: dict[str, Ints], done: Ints) -> Ints:
    """Of each request that tells of its failure only, and has told of none: what is linked behind.

    -1: nothing is, or it is none of those.
    """
    flags, tid, time = submitted["rwf"], submitted["tid"], submitted["time_ns"]
    following = AsOf(tid, time).at_or_after(tid, time + 1)
    some = ((flags & RWF_OF_SILENT) != 0) & ((flags & RWF_OF_LINKED) != 0) & (done < 0)
    # Of those that went with it, the one behind was not cancelled.
    return np.where(some, following, -1)


def _refused(trace: Trace, completed: dict[str, Ints], done: Ints) -> Submissions:
    """Syncs that failed before they were submitted: they have a completion only."""
    alone = np.ones(len(completed["time_ns"]), np.bool_)
    alone[done[done >= 0]] = False
    opcode = completed["opcode"]
    alone &= one_of(opcode, (URING_FSYNC, URING_SYNC_FILE_RANGE)) & (completed["result"] < 0)
    rows = np.flatnonzero(alone)
    refused = {name: column[rows] for name, column in completed.items()}
    begin, end = _around(trace, refused, refused["time_ns"])
    fsync = refused["opcode"] == URING_FSYNC
    nothing = np.zeros(len(rows), np.int64)
    return Submissions(
        engine=np.full(len(rows), IO_URING),
        key=refused["request_key"],
        begin_ns=begin,
        end_ns=end,
        effect_ns=end,
        tid=refused["tid"],
        tgid=process_of(trace, refused["tid"], refused["time_ns"]),
        device_key=refused["dev"],
        inode=refused["inode"],
        offset_bytes=nothing - 1,
        size_bytes=nothing,
        method=np.where(fsync, METHOD["fsync"], METHOD["sync_file_range"]),
        flush=np.ones(len(rows), np.bool_),
        result=refused["result"],
        read=np.zeros(len(rows), np.bool_),
        changes=np.zeros(len(rows), np.bool_),
        open_flags=refused["open_flags"],
        exchanged=np.zeros(len(rows), np.bool_),
    )


def _place(trace: Trace, opcode: Ints, appended: NDArray[np.bool_], done: Ints) -> Ints:
    """Where each request of io_uring is for: one that writes to the file's end, or to where its
    last call got (-1), has its place moved to behind what it wrote as it runs."""
    offset = _offset(trace.points["io_uring_submit_req"])
    moved = one_of(opcode, URING_WRITES) & (opcode != URING_SPLICE) & ((offset < 0) | appended)
    if not moved.any():
        return offset
    completed = trace.points["io_uring_complete"]
    # Of what its ring had no room for, nothing tells where that was.
    done = np.where(done < len(completed), done, -1)
    result = at(integers(completed["result"]), done)
    behind = at(_offset(completed), done) - result
    return np.where(moved, np.where((done >= 0) & (result > 0), behind, -1), offset)


def _offset(points: Points) -> Ints:
    """-1 where older recordings do not tell."""
    if "offset_bytes" in points.fields:
        return integers(points["offset_bytes"])
    return np.full(len(points), -1)


def process_of(trace: Trace, tid: Ints, time_ns: Ints) -> Ints:
    """The thread's process at a time, as thread events say; itself where there is none."""
    threads = columns_of(trace.points["thread"], "subject_tid", "tgid")
    told = AsOf(threads["subject_tid"], threads["time_ns"]).at_or_nearest(tid, time_ns)
    process = at(threads["tgid"], told)
    return np.where(process >= 0, process, tid)


def _around(trace: Trace, submitted: dict[str, Ints], complete: Ints) -> tuple[Ints, Ints]:
    """From the entry of the submitter's io_uring_enter to the return of the one that collects.

    Outside such a call (a completion that nobody waited for) the point itself counts.
    """
    if not len(complete):
        return complete, complete
    calls, submit, tid = enters_of(trace), submitted["time_ns"], submitted["tid"]
    begin = at(calls.enter_ns, calls.submitting(tid, submit))
    end = at(calls.end_ns, calls.collecting(tid, complete))
    return np.where(begin >= 0, begin, submit), np.where(end >= 0, end, complete)


def _of_aio(trace: Trace) -> Submissions:
    submitted = columns_of(
        trace.points["aio_submit"], "enter_ns", "tid", "iocb_key", "inode", "dev", "open_flags",
        "size_bytes", "opcode", "rwf",
    )  # fmt: skip
    completed = columns_of(trace.points["aio_complete"], "iocb_key", "result")
    done, exchanged = _completion_of_blocks(trace, submitted, completed)
    opcode = submitted["opcode"]
    method = method_of_write(submitted["open_flags"], submitted["rwf"])
    appended = one_of(opcode, AIO_WRITES) & appends(submitted["open_flags"], submitted["rwf"])
    method, flush = _syncs_of_aio(opcode, method)
    end = at(completed["time_ns"], done)
    found = Submissions(
        engine=np.full(len(opcode), LIBAIO),
        key=submitted["iocb_key"],
        begin_ns=submitted["enter_ns"],
        end_ns=end,
        effect_ns=np.where(flush, submitted["enter_ns"], end),
        tid=submitted["tid"],
        tgid=process_of(trace, submitted["tid"], submitted["time_ns"]),
        device_key=submitted["dev"],
        inode=submitted["inode"],
        offset_bytes=np.where(appended, -1, _offset(trace.points["aio_submit"])),
        size_bytes=submitted["size_bytes"],
        method=method,
        flush=flush,
        result=at(completed["result"], done),
        read=one_of(opcode, AIO_READS),
        changes=np.zeros(len(opcode), np.bool_),
        open_flags=submitted["open_flags"],
        exchanged=exchanged,
    )
    return found.rows(np.flatnonzero(flush | found.read | one_of(opcode, AIO_WRITES)))


def _completion_of_blocks(
    trace: Trace, submitted: dict[str, Ints], completed: dict[str, Ints]
) -> tuple[Ints, NDArray[np.bool_]]:
    """The row of each one's completion, -1: none; and whether others under way had its control
    block."""
    begun = Told(submitted["iocb_key"], submitted["enter_ns"], submitted["size_bytes"])
    ended = Told(completed["iocb_key"], completed["time_ns"], completed["result"])
    done, exchanged = completion_of_copied(begun, ended)
    rows = np.flatnonzero(exchanged)
    end_ns = ended.time_ns[done[rows]]
    # All behind one that is lost had another's.
    lost = rows[trace.losses.touch(np.full(len(rows), trace.begin_ns), end_ns)]
    done[lost], exchanged[lost] = -1, False
    return done, exchanged


def requested_durably(point: str, events: NDArray[Any]) -> tuple[Ints, Ints]:
    """Which of the events (rows) of an engine's point are of synchronous writes of which their own
    columns tell that: all but what makes room. And the methods; ``PLAIN``: a submission that does
    not tell its file, which may be one."""
    columns = (np.ascontiguousarray(events[name]) for name in ("opcode", "open_flags", "rwf"))
    opcode, flags, rwf = columns
    engine = next(one for one in _ENGINES if point in (one.submit, one.complete))
    writes = one_of(opcode, engine.writes)
    method = np.where(writes, method_of_write(flags, rwf), PLAIN)
    if engine.key == "iocb_key":
        method, flush = _syncs_of_aio(opcode, method)
        may_be = np.zeros(len(method), np.bool_)
    else:
        method, flush = _syncs_of_uring(opcode, rwf, method)
        may_be = writes & (events["inode"] == 0) & (point == engine.submit)
    rows = np.flatnonzero((writes & (method != PLAIN)) | flush | may_be)
    return rows, method[rows]


def _syncs_of_uring(opcode: Ints, rwf: Ints, method: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The methods, with those of requests that synchronise; which only make durable."""
    fsync = np.where((rwf & URING_FSYNC_DATASYNC) != 0, METHOD["fdatasync"], METHOD["fsync"])
    method = np.where(opcode == URING_FSYNC, fsync, method)
    method = np.where(opcode == URING_SYNC_FILE_RANGE, METHOD["sync_file_range"], method)
    waits = (opcode == URING_SYNC_FILE_RANGE) & ((rwf & SYNC_FILE_RANGE_WAITS) != 0)
    return method, (opcode == URING_FSYNC) | waits


def _syncs_of_aio(opcode: Ints, method: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """As ``_syncs_of_uring``."""
    method = np.where(opcode == AIO_FSYNC, METHOD["fsync"], method)
    method = np.where(opcode == AIO_FDSYNC, METHOD["fdatasync"], method)
    return method, one_of(opcode, (AIO_FSYNC, AIO_FDSYNC))


def exchanged_of(trace: Trace) -> int:
    """Of how many requests to read, write durably or synchronise another may have the completion:
    all of them used a control block while others that did were under way."""
    if not len(trace.points["aio_submit"]):
        return 0
    found = _of_aio(trace)
    return int(np.count_nonzero(found.exchanged & (found.read | (found.method != PLAIN))))
