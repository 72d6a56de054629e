# SPDX-License-Identifier: Apache-2.0
"""The recorder in a control group without memory for it says so, and not that BPF is forbidden."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iostrata.record import find_recorder
from tests.root.conftest import remove_group

GROUPS = Path("/sys/fs/cgroup")
LIMIT = 24 << 20


@pytest.fixture
def small() -> Iterator[Path]:
    """A group whose processes may have so much memory, by either version's file."""
    first = GROUPS / "memory"
    group = (first if first.is_dir() else GROUPS) / f"iostrata-small-{os.getpid()}"
    try:
        if not first.is_dir():
            (GROUPS / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
        name = "memory.limit_in_bytes" if first.is_dir() else "memory.max"
        (group / name).write_text(str(LIMIT))
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        pytest.skip(f"no memory can be limited: {error}")
    yield group
    remove_group(group)


def test_a_control_group_that_is_too_small_is_named(small: Path, tmp_path: Path) -> None:
    join = f'echo $$ > {small}/cgroup.procs; exec "$@"'
    recorder = [str(find_recorder()), "-o", str(tmp_path / "trace"), "--duration", "0.1", "--all"]
    done = subprocess.run(
        ["sh", "-c", join, "sh", *recorder], check=False, capture_output=True, text=True
    )
    assert done.returncode == 125, done.stderr
    assert "there is not memory enough: the recorder needs 40 MiB, and 4096 KiB" in done.stderr
