# SPDX-License-Identifier: Apache-2.0
"""Machines that are entered by an ssh made of a shell script: each is a directory here.

What a machine answers otherwise than this one does is a program in its directory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.record.ssh import COMMAND, Ssh
from tests.record.recorders import install

SSH = """#!/bin/bash
# ssh OPTIONS -- DESTINATION COMMAND
command=${@: -1} destination=${@: -2:1}
export MACHINE=$FAR/$destination PATH=$FAR/$destination:$PATH
if [ -e "$MACHINE/shut" ]; then
  echo "ssh: connect to host $destination port 22: Connection refused" >&2
  exit 255
fi
exec bash -c "$command"
"""
# The real one's protocol; `midway` of a machine is what happens to it while it records.
RECORDER = r"""
status_line() { printf '%s%s\n' "$mark" "$*" >&$status; }
# Until nothing was asked for a moment; more than 128 is the end of that moment.
answer() {
  local line got
  while IFS= read -r -t 0.05 -u $control line; got=$?; [ $got = 0 ]; do
    status_line clock "$(date +%s%N)"
  done
  [ $got -gt 128 ]
}
[ "$status" = 2 ] && mark=$'\x1e'
if [ "$probes" ]; then
  printf '%s\t%s\t%s\t%s\t\n' syscall_enter write syscall ok \
    block_rq_issue x block ok block_rq_complete x block "$(trial)"
  exit
fi
cp -r "$FAR/trace/." "$directory"
status_line ready $$
[ -e "$MACHINE/midway" ] && . "$MACHINE/midway"
if [ $# -gt 0 ]; then
  "$@" <&- & command=$!
  while kill -0 $command 2>&-; do answer || kill $command; done
  wait $command; result=$?
  status_line exit $result
else
  while IFS= read -r -u $control line; do status_line clock "$(date +%s%N)"; done
fi
status_line progress 100 0 1.5
status_line done ${result:-0}
"""


class Far:
    """``places``: where the machines have their temporary directories."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.places = directory / "places"

    def says(self, machine: str, program: str, script: str) -> None:
        path = self.directory / machine / program
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def happens(self, machine: str, script: str) -> None:
        """To its recorder, once it records."""
        (self.directory / machine / "midway").write_text(script)

    def left_over(self) -> list[str]:
        return sorted(path.name for path in self.places.iterdir())


def set_up(directory: Path, monkeypatch: pytest.MonkeyPatch, *machines: str) -> Far:
    far = Far(directory / "far")
    far.places.mkdir(parents=True)
    for machine in machines:
        (far.directory / machine).mkdir()
        far.says(machine, "id", "echo 0")
        far.says(machine, "trial", "echo ok")
    ssh = far.directory / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    monkeypatch.setenv("FAR", str(far.directory))
    monkeypatch.setenv(COMMAND, str(ssh))
    monkeypatch.setattr(Ssh, "places", (str(far.places),))
    install(RECORDER, directory, monkeypatch)
    return far
