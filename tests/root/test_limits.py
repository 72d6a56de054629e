# SPDX-License-Identifier: Apache-2.0
"""A recorder that has not what it needs says what that is, and not that BPF is forbidden."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iostrata.record import find_recorder
from tests.root.conftest import IOSTRATA, remove_group

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


def refused(recorder_before: list[str], trace: Path, *command: str) -> str:
    recorder = [str(find_recorder()), "-o", str(trace), "--duration", "0.1", *command]
    done = subprocess.run(
        [*recorder_before, *recorder], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 125, done.stderr
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_a_control_group_that_is_too_small_is_named(small: Path, tmp_path: Path) -> None:
    before = ["sh", "-c", f'echo $$ > {small}/cgroup.procs; exec "$@"', "sh"]
    told = refused(before, tmp_path / "trace", "--all")
    assert "there is not memory enough: the recorder needs 40 MiB, and 4096 KiB" in told


def test_too_few_open_files_are_named(tmp_path: Path) -> None:
    """Once, and not for one program after the other. Who may raises the limit, for itself."""
    before = ["setpriv", "--bounding-set", "-sys_resource", "--inh-caps", "-sys_resource"]
    told = refused([*before, "sh", "-c", 'ulimit -n 64; exec "$@"', "sh"], tmp_path / "t", "--all")
    assert "eBPF programs cannot be loaded: Too many open files (ulimit -n)" in told


@pytest.mark.parametrize(
    ("before", "namespace", "hint"),
    [
        (["unshare", "--pid", "--fork", "--mount-proc"], "PID", "--pid=host"),
        (["unshare", "--time", "--monotonic", "500000", "--fork"], "time", "record outside"),
    ],
)
def test_another_namespace_is_refused(
    before: list[str], namespace: str, hint: str, tmp_path: Path
) -> None:
    """It recorded no event of its own command, or all of them at another time, and ended well."""
    told = refused(before, tmp_path / "t", "--", "true")
    assert f"the machine's own {namespace} namespace" in told
    done = subprocess.run(
        [*before, *IOSTRATA, "record", "-o", str(tmp_path / "r"), "--", "true"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 4
    assert hint in done.stderr
    assert not (tmp_path / "r").exists()
