# SPDX-License-Identifier: Apache-2.0
"""A directory with the traces of one or more machines: opened, joined, described."""

from iostrata.recording.joined import Part, join
from iostrata.recording.kept import facts_in
from iostrata.recording.ownership import check_own, give
from iostrata.recording.recording import (
    ANALYSIS,
    FILE_NAME,
    MACHINE_NAME,
    MOST_MACHINES,
    ROLES,
    SUMMARIES,
    RecordedMachine,
    Recording,
    check_number,
    open_recording,
    runs_in,
    write_recording_json,
)
from iostrata.recording.redact import redact
from iostrata.recording.removal import discard, holds_events, remove_recording, replaced, withdraw

__all__ = [
    "ANALYSIS", "FILE_NAME", "MACHINE_NAME", "MOST_MACHINES", "ROLES", "SUMMARIES", "Part",
    "RecordedMachine", "Recording", "check_number", "check_own", "discard", "facts_in", "give",
    "holds_events", "join", "open_recording", "redact", "remove_recording", "replaced", "runs_in",
    "withdraw", "write_recording_json",
]  # fmt: skip
