# SPDX-License-Identifier: Apache-2.0
"""The trace stage: one machine's CTF directory to columns, and back."""

from iostrata.trace import layout
from iostrata.trace.cells import count
from iostrata.trace.clocks import Exchange, TscOffset
from iostrata.trace.dump import dump, tells_of
from iostrata.trace.echo import ECHOES, Echo, echo_lines
from iostrata.trace.fact_files import MISSING, parse_mount
from iostrata.trace.facts import IN_MEMORY, BlockDevice, CpuPlace, Facts, Mount
from iostrata.trace.file_systems import FileSystems
from iostrata.trace.files import (
    FACTS,
    METADATA,
    MOST_FACT_BYTES,
    OURS,
    is_trace_file,
    open_regular,
    read_small,
    write_whole,
)
from iostrata.trace.follow import Follower, Keep, Snapshot
from iostrata.trace.frames import TYPICAL_TIMES, is_framed
from iostrata.trace.images import Extent, File
from iostrata.trace.losses import NO_ROOM, UNKNOWN_POINT
from iostrata.trace.metadata import Clock
from iostrata.trace.names import ProcessNames, ThreadNames
from iostrata.trace.origin import UNSEEN_CALLS, Env, by_script, of_all, of_device, of_tree
from iostrata.trace.paths import FileNames, file_names
from iostrata.trace.points import Points
from iostrata.trace.pseudonyms import Pseudonyms
from iostrata.trace.read import Trace, read_trace
from iostrata.trace.redact import redact_trace
from iostrata.trace.stream import RECORDER_CPU
from iostrata.trace.subvolumes import inode_numbers, untold_subvolumes
from iostrata.trace.wallclock import halted_ns, halts_of, realtime_of, suspended_ns
from iostrata.trace.write import block_fact, with_fields, write_trace

__all__ = [
    "ECHOES", "FACTS", "IN_MEMORY", "METADATA", "MISSING", "MOST_FACT_BYTES", "NO_ROOM", "OURS",
    "RECORDER_CPU", "TYPICAL_TIMES", "UNKNOWN_POINT", "UNSEEN_CALLS", "BlockDevice", "Clock",
    "CpuPlace", "Echo", "Env", "Exchange", "Extent", "Facts", "File", "FileNames",
    "FileSystems", "Follower", "Keep", "Mount", "Points", "ProcessNames", "Pseudonyms",
    "Snapshot", "ThreadNames", "Trace", "TscOffset", "block_fact", "by_script", "count", "dump",
    "echo_lines", "file_names", "halted_ns", "halts_of", "inode_numbers", "is_framed",
    "is_trace_file", "layout", "of_all", "of_device", "of_tree", "open_regular", "parse_mount",
    "read_small", "read_trace", "realtime_of", "redact_trace", "suspended_ns", "tells_of",
    "untold_subvolumes", "with_fields", "write_trace", "write_whole",
]  # fmt: skip
