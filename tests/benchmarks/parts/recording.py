# SPDX-License-Identifier: Apache-2.0
"""A recorder, this one or another commit's, at work; its BPF programs, by the kernel's account."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iostrata.record.recorder import find_recorder

ROOT = Path(__file__).parents[3]


@contextlib.contextmanager
def recorder_of(commit: str | None) -> Iterator[Path]:
    """The recorder of a commit, built elsewhere; None: this one."""
    if commit is None:
        yield find_recorder()
        return
    with tempfile.TemporaryDirectory() as directory:
        sources = ["bpf", "tracer/iostrata/__init__.py"]
        archive = subprocess.run(
            ["git", "archive", commit, *sources], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", directory], input=archive.stdout, check=True)
        make = ["make", "-s", "-C", f"{directory}/bpf", "build/iostrata-record"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        yield Path(directory) / "bpf" / "build" / "iostrata-record"


def loaded() -> list[dict[str, Any]]:
    """The BPF programs that the kernel has now."""
    bpftool = shutil.which("bpftool", path=f"{os.environ['PATH']}:/usr/sbin")
    shown = subprocess.run(
        [str(bpftool), "--json", "prog", "show"], check=True, capture_output=True
    )
    programs: list[dict[str, Any]] = json.loads(shown.stdout)
    return programs


class Recording:
    """A recorder that looks at one process, until it is asked to end."""

    def __init__(self, recorder: Path, directory: Path, pid: int, *options: str) -> None:
        self.directory = directory
        ours, theirs = os.pipe()
        command = [recorder, "-o", directory, *options, "--pid", pid, "--status-fd", theirs]
        self.process = subprocess.Popen([str(word) for word in command], pass_fds=[theirs])
        os.close(theirs)
        self.status = os.fdopen(ours)
        if not any(line.startswith("ready") for line in self.status):
            raise SystemExit("the recorder did not begin")

    def ids(self, holding: str = "") -> set[str]:
        """Of the programs that it holds; ``holding``: by what has such a line."""
        found = set()
        for path in Path(f"/proc/{self.process.pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):
                text = path.read_text()
                lines = text.splitlines() if holding in text else []
                found |= {line.split()[1] for line in lines if line.startswith("prog_id:")}
        return found

    def attached(self) -> dict[str, str]:
        """Their types, by their names."""
        ids = self.ids("link_id:")
        return {one["name"]: one["type"] for one in loaded() if str(one["id"]) in ids}

    def programs(self) -> dict[str, tuple[int, int]]:
        """Of each program of it: ns and hits until now."""
        ids = self.ids()
        return {
            program["name"]: (program.get("run_time_ns", 0), program.get("run_cnt", 0))
            for program in loaded()
            if str(program["id"]) in ids and "name" in program
        }

    def end(self) -> None:
        """Until the kernel has let go of its points: whoever is timed next would pay for them."""
        ids = self.ids()
        self.process.send_signal(signal.SIGINT)
        self.status.read()
        self.process.wait()
        while ids & {str(program["id"]) for program in loaded()}:
            time.sleep(0.1)
