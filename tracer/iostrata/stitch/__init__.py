# SPDX-License-Identifier: Apache-2.0
"""Events to pieces to spans."""

from iostrata.stitch.account import (
    Accounted,
    members_of,
    processes_of,
    servers_of,
    units_of,
)
from iostrata.stitch.audit import KINDS, Activities, Audit, Idle, Ways
from iostrata.stitch.behind import Behind, Kinds, Parts
from iostrata.stitch.bios import bios_of
from iostrata.stitch.calls import (
    ENGINES,
    EVERY_DEVICE,
    FILE_UNKNOWN,
    METHOD,
    METHODS,
    O_DSYNC,
    PLAIN,
    Operations,
    Pieces,
    Reads,
    Units,
    are_direct,
    method_of_write,
    simply_durable,
)
from iostrata.stitch.chain import FOLLOWED
from iostrata.stitch.collecting import may_return_in_loss
from iostrata.stitch.completions import completion_of
from iostrata.stitch.copied import Told, completion_of_copied
from iostrata.stitch.cpus import behind_cpus
from iostrata.stitch.cut import (
    BEGUN,
    HANGING,
    LOST,
    NO_ROOM,
    OVER,
    RUNNING,
    UNCOLLECTED,
    UNFINISHED,
)
from iostrata.stitch.elsewhere import elsewhere
from iostrata.stitch.enters import enters_of
from iostrata.stitch.fuse import DAEMON, calls_of, fuse_calls_of
from iostrata.stitch.journal import Commits, commits_of
from iostrata.stitch.kinds import kinds_of
from iostrata.stitch.librbd import ImageRequests, Images, image_devices, image_name, images_of
from iostrata.stitch.ninep import ninep_calls_of
from iostrata.stitch.occupied import MOST_SLEEPS
from iostrata.stitch.opcodes import AIO_FDSYNC, AIO_FSYNC
from iostrata.stitch.osd import (
    OPERATING,
    OSD_OP,
    OSD_OPREPLY,
    OSD_REPOP,
    OSD_REPOPREPLY,
    exchange_key,
    messages_of,
    sent_of,
    suboperations_of,
)
from iostrata.stitch.owners import Owners
from iostrata.stitch.pages import FURTHER, OF_FILE, SERVED
from iostrata.stitch.people import People, told
from iostrata.stitch.reaching import reach_of
from iostrata.stitch.reads import (
    OPEN_OF_DEVICE,
    Transferred,
    Transfers,
    direct_of,
    longest_read,
    may_be_disk,
    read_outside,
    reads_of,
)
from iostrata.stitch.reconnects import Downs, downs_of
from iostrata.stitch.requests import FUA, OP_READ, OP_WRITE, Requests, requests_of
from iostrata.stitch.rpc import (
    FUSE_REQUEST,
    LIBRBD_REQUEST,
    NINEP_REQUEST,
    OSD_REQUEST,
    Calls,
    rpc_calls_of,
)
from iostrata.stitch.serving import Service, short_of_cpu
from iostrata.stitch.spans import NO_SPANS, Edges, SpanList, Spans, follow
from iostrata.stitch.stacked import TIED_BY, stacking
from iostrata.stitch.stages import last_hit
from iostrata.stitch.stitch import Asked, Stitched, stitch
from iostrata.stitch.submissions import (
    IO_URING,
    LIBAIO,
    Submissions,
    exchanged_of,
    pieces_of,
    process_of,
    requested_durably,
    submissions_of,
)
from iostrata.stitch.turns import UNASKED
from iostrata.stitch.wakeup import Sleeps, sleeps_of
from iostrata.stitch.window import (
    NO_COMMITS,
    NO_PIECES,
    Columns,
    Section,
    Window,
    whole,
    window_of,
    windows,
)

__all__ = [
    "AIO_FDSYNC",
    "AIO_FSYNC",
    "BEGUN",
    "DAEMON",
    "ENGINES",
    "EVERY_DEVICE",
    "FILE_UNKNOWN",
    "FOLLOWED",
    "FUA",
    "FURTHER",
    "FUSE_REQUEST",
    "HANGING",
    "IO_URING",
    "KINDS",
    "LIBAIO",
    "LIBRBD_REQUEST",
    "LOST",
    "METHOD",
    "METHODS",
    "MOST_SLEEPS",
    "NINEP_REQUEST",
    "NO_COMMITS",
    "NO_PIECES",
    "NO_ROOM",
    "NO_SPANS",
    "OF_FILE",
    "OPEN_OF_DEVICE",
    "OPERATING",
    "OP_READ",
    "OP_WRITE",
    "OSD_OP",
    "OSD_OPREPLY",
    "OSD_REPOP",
    "OSD_REPOPREPLY",
    "OSD_REQUEST",
    "OVER",
    "O_DSYNC",
    "PLAIN",
    "RUNNING",
    "SERVED",
    "TIED_BY",
    "UNASKED",
    "UNCOLLECTED",
    "UNFINISHED",
    "Accounted",
    "Activities",
    "Asked",
    "Audit",
    "Behind",
    "Calls",
    "Columns",
    "Commits",
    "Downs",
    "Edges",
    "Idle",
    "ImageRequests",
    "Images",
    "Kinds",
    "Operations",
    "Owners",
    "Parts",
    "People",
    "Pieces",
    "Reads",
    "Requests",
    "Section",
    "Service",
    "Sleeps",
    "SpanList",
    "Spans",
    "Stitched",
    "Submissions",
    "Told",
    "Transferred",
    "Transfers",
    "Units",
    "Ways",
    "Window",
    "are_direct",
    "behind_cpus",
    "bios_of",
    "calls_of",
    "commits_of",
    "completion_of",
    "completion_of_copied",
    "direct_of",
    "downs_of",
    "elsewhere",
    "enters_of",
    "exchange_key",
    "exchanged_of",
    "follow",
    "fuse_calls_of",
    "image_devices",
    "image_name",
    "images_of",
    "kinds_of",
    "last_hit",
    "longest_read",
    "may_be_disk",
    "may_return_in_loss",
    "members_of",
    "messages_of",
    "method_of_write",
    "ninep_calls_of",
    "pieces_of",
    "process_of",
    "processes_of",
    "reach_of",
    "read_outside",
    "reads_of",
    "requested_durably",
    "requests_of",
    "rpc_calls_of",
    "sent_of",
    "servers_of",
    "short_of_cpu",
    "simply_durable",
    "sleeps_of",
    "stacking",
    "stitch",
    "submissions_of",
    "suboperations_of",
    "told",
    "units_of",
    "whole",
    "window_of",
    "windows",
]  # fmt: skip
