# SPDX-License-Identifier: Apache-2.0
"""Machines that are entered by an ssh made of a shell script: each is a directory here.

What a machine answers otherwise than this one does is a program in its directory.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from iostrata.cli import capture
from iostrata.record import recorder
from iostrata.record.place import KEEPER
from iostrata.record.ssh import COMMAND, Ssh

SSH: Final = """#!/bin/bash
# ssh OPTIONS -- DESTINATION COMMAND
command=${@: -1} destination=${@: -2:1}
export MACHINE=$FAR/$destination PATH=$FAR/$destination:$PATH
if [ -e "$MACHINE/shut" ]; then
  echo "ssh: connect to host $destination port 22: Connection refused" >&2
  exit 255
fi
exec bash -c "$command"
"""
# What happens midway begins when the command has, or ends with its recorder.
MIDWAY: Final = """until [ -e "$FAR/went" ]; do
  kill -0 "$RECORDER" 2>/dev/null || exit
  sleep 0.02
done
{script}
touch "$FAR/happened"
"""
# A command that ends when it has happened, however long that takes.
UNTIL_THEN: Final = (
    "timeout", "60", "sh", "-c", 'until [ -e "$FAR/happened" ]; do sleep 0.02; done',
)  # fmt: skip
# The real one's protocol, and in between whatever happens to it on its machine.
RECORDER: Final = (
    f"#!{sys.executable}"
    + r"""
import os, select, shutil, subprocess, sys, time
from pathlib import Path

machine, words = Path(os.environ["MACHINE"]), sys.argv[1:]
options = words[: words.index("--")] if "--" in words else words
after = lambda option: options[options.index(option) + 1]
status, control = int(after("--status-fd")), int(after("--control-fd"))
mark = "\x1e"
tell = lambda *told: os.write(status, f"{mark}{' '.join(map(str, told))}\n".encode())
asked = os.fdopen(os.dup(control), "rb", buffering=0)

(machine / "words").write_text(" ".join(words))
shutil.copytree(Path(os.environ["FAR"], "trace"), after("-o"))
verdict = (machine / "verdict").read_text()
for row in ("syscall_enter\twrite\tsyscall\tok", "block_rq_issue\tx\tblock\tok",
            f"block_rq_complete\tx\tblock\t{verdict}"):
    tell(f"probe {row}\t")
if (machine / "slow").exists():
    time.sleep(6)
tell("ready", os.getpid())
if (machine / "vanishing").exists():
    sys.exit()
if (machine / "failing").exists():
    tell("failed", (machine / "failing").read_text())
    tell("done", 125)
    sys.exit(125)
subprocess.Popen(["sh", machine / "midway"], env=os.environ | {"RECORDER": str(os.getpid())})

command, unread, result, heard = None, b"", 0, time.monotonic()
while not (machine / "impatient").exists() or time.monotonic() < heard + 4:
    if select.select([asked], [], [], 0.02)[0]:
        heard = time.monotonic()
        chunk = asked.read(4096)
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            if line == b"go":
                Path(os.environ["FAR"], "went").touch()
                command = subprocess.Popen(words[len(options) + 1 :], stdin=subprocess.DEVNULL)
            elif line.startswith(b"mark "):
                mark += line.decode().split()[1] + " "
                tell("marked")
            else:
                tell("clock", time.monotonic_ns())
        if not chunk:
            if command:
                command.terminate()
                command.wait()
            break
    if (machine / "saying").exists():
        said = (machine / "saying").read_bytes()
        (machine / "saying").unlink()
        os.write(status, mark.encode() + said)
    if command and command.poll() is not None:
        break
if command:
    result = command.returncode if command.returncode >= 0 else 128 - command.returncode
    tell("exit", result)
tell("progress", 100, 0, 1.5)
tell("done", result)
sys.exit(result)
"""
)


class Far:
    """``places``: where the machines have their temporary directories."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.places = directory / "places"

    def says(self, machine: str, program: str, script: str) -> None:
        """What that program does there."""
        self.has(machine, program, f"#!/bin/bash\n{script}\n")

    def has(self, machine: str, name: str, text: str) -> None:
        path = self.directory / machine / name
        path.write_text(text)
        path.chmod(0o755)

    def happens(self, machine: str, script: str) -> None:
        """When all record and the command has begun, which is UNTIL_THEN."""
        self.has(machine, "midway", MIDWAY.format(script=script))

    def speaks(self, machine: str, script: str) -> None:
        """Its recorder says what the script prints."""
        said = "mv $MACHINE/now $MACHINE/saying; while [ -e $MACHINE/saying ]; do sleep 0.02; done"
        self.happens(machine, f"{script} >$MACHINE/now; {said}")

    def dies(self, machine: str, script: str = "") -> None:
        """Its recorder, after the script."""
        self.happens(machine, f"{script}\nkill -KILL $RECORDER")

    def words(self, machine: str) -> list[str]:
        """What its recorder was told."""
        return (self.directory / machine / "words").read_text().split()

    def left_over(self) -> list[str]:
        return sorted(path.name for path in self.places.iterdir())


def set_up(directory: Path, monkeypatch: pytest.MonkeyPatch, *machines: str) -> Far:
    far = Far(directory / "far")
    far.places.mkdir(parents=True)
    for machine in machines:
        (far.directory / machine).mkdir()
        far.says(machine, "id", "echo 0")
        far.has(machine, "verdict", "ok")
        far.has(machine, "midway", "")
    far.has(".", "ssh", SSH)
    far.has(".", "recorder", RECORDER)
    monkeypatch.setenv("FAR", str(far.directory))
    monkeypatch.setenv(COMMAND, str(far.directory / "ssh"))
    monkeypatch.setattr(Ssh, "places", (str(far.places),))
    monkeypatch.setattr(recorder, "PACKAGED", far.directory / "recorder")
    monkeypatch.setattr(capture, "check_ebpf", lambda: None)
    return far


def keepers(place: Path) -> list[int]:
    """Processes that are keepers of that directory, or of one in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if KEEPER.encode() in words and bytes(place) in words:
                found.append(int(process.name))
    return found
