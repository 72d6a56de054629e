# SPDX-License-Identifier: Apache-2.0
"""In which control group, and container, who writes is: also of those who had begun before."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.root.conftest import iostrata, remove_group
from tests.root.test_files import by_file, replayed
from tests.root.test_record import good
from tests.root.test_who import hierarchy, neighbour

# What a container's engine calls its group, and what that is shown as.
NUMBER = "0123456789abcdef" * 4
ENGINES = {"docker": "docker", "libpod": "podman"}
RECORDINGS = 2

# The more blocks it submits, and transactions it has handles in, while nothing is recorded yet, the
# sooner one of them is met then.
WRITER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
while True:
    os.pwrite(fd, bytes(4096), 0)
    os.fsync(fd)
"""


@pytest.fixture
def writers(disk: Path) -> Iterator[dict[str, int]]:
    """Processes that sync all the time, by the names of their groups."""
    with ExitStack() as stack:
        above, found = hierarchy(), {}
        for engine in ENGINES:
            group = above / f"{engine}-{NUMBER}.scope"
            group.mkdir()
            stack.callback(remove_group, group)
            writer = neighbour(group, sys.executable, "-c", WRITER, str(disk / engine))
            stack.enter_context(writer)
            stack.callback(writer.kill)
            found[group.name] = writer.pid
        time.sleep(0.5)
        yield found


@pytest.mark.parametrize("by", ["pid", "cgroup", "all"])
def test_who_is_busy_already(by: str, writers: dict[str, int], disk: Path) -> None:
    """Between the attaching of programs and the first event that is recorded, they do much."""
    chosen = {
        "pid": [word for pid in writers.values() for word in ("--pid", str(pid))],
        "cgroup": [word for group in writers for word in ("--cgroup", f"/{group}")],
        "all": ["--all"],
    }
    recording = disk / "recording"
    for _ in range(RECORDINGS):
        record = ("record", "-o", str(recording), "--force", "--duration", "0.5", *chosen[by])
        done = iostrata(*record)
        good(done.returncode, done.stderr)
        groups = by_file(replayed(recording, "--by", "cgroup"))
        assert {f"/{group}" for group in writers} <= set(groups), groups
        assert "unknown" not in groups or by == "all"
        containers = by_file(replayed(recording, "--by", "container"))
        assert {f"{name} {NUMBER[:12]}" for name in ENGINES.values()} <= set(containers)


ANEW = """
for writes in 20 30; do
    mkdir $GROUP/below || exit 1
    sh -c 'echo $$ > $GROUP/below/cgroup.procs; exec dd if=/dev/zero of=$FILE bs=4k count=$0 \
oflag=dsync status=none' $writes
    until rmdir $GROUP/below; do sleep 0.05; done
    rmdir $GROUP && mkdir $GROUP || exit 1
done
"""


def test_a_group_that_is_made_anew(disk: Path) -> None:
    """As a service's is that is started again: of its path, and with another number."""
    group, recording = hierarchy() / f"anew-{NUMBER[:8]}", disk / "recording"
    group.mkdir()
    environment = ("env", f"GROUP={group}", f"FILE={disk / 'file'}", "sh", "-c", ANEW)
    try:
        asked = ("--cgroup", f"/{group.name}", "-o", str(recording), "--force")
        done = iostrata("record", *asked, "--", *environment)
        good(done.returncode, done.stderr)
        assert by_file(replayed(recording, "--by", "file")) == {str(disk / "file"): 50}
    finally:
        remove_group(group)
