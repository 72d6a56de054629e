# SPDX-License-Identifier: Apache-2.0
"""Machines as the command line names them in, those of a plan out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from iostrata.errors import UsageError
from iostrata.record import Local, Plan, Planned, Request, Ssh, Transport
from iostrata.recording import MACHINE_NAME, ROLES, check_number

NAMED: Final = re.compile(
    rf"(?P<name>{MACHINE_NAME.pattern})(:(?P<role>\w+))?=(?P<value>.+)", re.ASCII
)
EXAMPLE: Final = "such as guest=ssh:root@g, host=local, nas:server=ssh:root@nas"


def plan(request: Request, texts: Sequence[str], workload_on: str) -> Plan:
    """``texts``: NAME[:ROLE]=local|ssh:DESTINATION. UsageError: one of them makes no sense."""
    machines = tuple(_machine(text, request.directory, len(texts) == 1) for text in texts)
    names = [machine.name for machine in machines]
    check_number("--machine", len(names))
    check_unique(names)
    workload = workload_on or names[0]
    if workload not in names:
        raise UsageError(
            f"--workload-on {workload}: there is no such machine", f"one of {', '.join(names)}"
        )
    return Plan(request, machines, workload)


def check_unique(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two machines are named {name}", "give each a name of its own: NAME:ROLE=..."
            )


def named(text: str, example: str) -> tuple[str, str, str]:
    """``NAME[:ROLE]=VALUE`` as its parts; no role: the name, where that is one, or empty."""
    found = NAMED.fullmatch(text)
    if not found:
        raise UsageError(f"{text!r} is no machine", example)
    name, role = found["name"], found["role"] or ""
    if role and role not in ROLES:
        raise UsageError(f"{text}: there is no role {role}", f"one of {', '.join(sorted(ROLES))}")
    return name, role or (name if name in ROLES else ""), found["value"]


def _machine(text: str, directory: Path, alone: bool) -> Planned:
    name, role, value = named(text, f"give NAME=local or NAME=ssh:USER@HOST, {EXAMPLE}")
    if not role and not alone:
        raise UsageError(
            f"{text}: what part does {name} have in the path of a write?",
            f"say so: {name}:guest=..., {name}:host=..., {name}:server=..., "
            f"or {name}:local=... (a server's client)",
        )
    return Planned(name, role or "local", _transport(text, value, directory))


def _transport(text: str, value: str, directory: Path) -> Transport:
    if value == "local":
        return Local(directory)
    if value.startswith("ssh://"):
        return Ssh(value)
    kind, _, destination = value.partition(":")
    if kind != "ssh":
        raise UsageError(f"{text}: a machine is entered by local or ssh:DESTINATION", f"{EXAMPLE}")
    return Ssh(destination)
