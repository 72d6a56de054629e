# SPDX-License-Identifier: Apache-2.0
"""Record stage: a Request in, a recording on disk and its Outcome out."""

from __future__ import annotations

from iostrata.record.background import beside
from iostrata.record.diagnosis import (
    MISSING,
    Diagnosis,
    Probe,
    Verdict,
    diagnose,
    read_probes,
    verdicts,
)
from iostrata.record.echo import Echoes, servers, write_echoes
from iostrata.record.interruption import Answer, Interruption
from iostrata.record.local import Local
from iostrata.record.machines import Plan, record_machines
from iostrata.record.member import Planned
from iostrata.record.mounts import Carried, carried_mounts, write_connections
from iostrata.record.permission import BUYS, Refusal, check_ebpf, refusal
from iostrata.record.recorder import (
    Outcome,
    Request,
    Target,
    find_recorder,
    found_command,
    record,
    signal_name,
)
from iostrata.record.route import Connection, Route
from iostrata.record.ssh import Ssh
from iostrata.record.status import Progress, RecorderListener
from iostrata.record.system import Disk, System
from iostrata.record.targets import check_target
from iostrata.record.transport import STATUS_TIME_LIMIT, Done, Transport

__all__ = [
    "BUYS", "MISSING", "STATUS_TIME_LIMIT", "Answer", "Carried", "Connection", "Diagnosis", "Disk",
    "Done", "Echoes", "Interruption", "Local", "Outcome", "Plan", "Planned", "Probe", "Progress",
    "RecorderListener", "Refusal", "Request", "Route", "Ssh", "System", "Target", "Transport",
    "Verdict", "beside", "carried_mounts", "check_ebpf", "check_target",
    "diagnose", "find_recorder", "found_command", "read_probes", "record", "record_machines",
    "refusal", "servers", "signal_name", "verdicts", "write_connections", "write_echoes",
]  # fmt: skip
