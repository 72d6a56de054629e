# SPDX-License-Identifier: Apache-2.0
"""Recorders made of a shell script: they keep the real one's protocol, and need no root."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.cli import capture
from iostrata.record import recorder

# Finds --status-fd and the command among its arguments, as $status and "$@"; $options: the others.
PRELUDE = """#!/bin/bash
directory= status= options=
while [ $# -gt 0 ]; do
  case $1 in
    -o) directory=$2; shift 2;;
    --status-fd) status=$2; shift 2;;
    --) shift; break;;
    *) options="$options $1"; shift;;
  esac
done
tell() { echo "$*" >&$status; }
mkdir -p "$directory"
"""


def install(script: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes ``script`` the recorder, and grants it the rights it does not need."""
    path = directory / "recorder"
    path.write_text(PRELUDE + script)
    path.chmod(0o755)
    monkeypatch.setattr(recorder, "PACKAGED", path)
    monkeypatch.setattr(capture, "check_ebpf", lambda: None)
