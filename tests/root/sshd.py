# SPDX-License-Identifier: Apache-2.0
"""An sshd of our own on this machine, with keys and a configuration of its own."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SSHD: Final = Path("/usr/sbin/sshd")
# Where it wants an empty directory, whatever its configuration says.
PRIVILEGE_SEPARATION: Final = Path("/run/sshd")
SERVER: Final = """\
ListenAddress 127.0.0.1:{port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/user_key.pub
PidFile none
StrictModes no
UsePAM no
"""
CLIENT: Final = """\
Host near
    HostName 127.0.0.1
    Port {port}
    User root
    IdentityFile {directory}/user_key
    IdentitiesOnly yes
    UserKnownHostsFile {directory}/known_hosts
    StrictHostKeyChecking accept-new
Host shut
    HostName 127.0.0.1
    Port 9
"""


@dataclass(frozen=True)
class Sshd:
    """``ssh``: the command for which ``near`` is this machine, and ``shut`` a closed port."""

    ssh: str
    pid: int

    def recorders(self) -> dict[int, Path]:
        """Those that run for a client: the sshd of its connection, and the recorder's place."""
        table = [line.split(None, 3) for line in _run("ps", "-eo", "pid=,ppid=,args=").splitlines()]
        parents = {int(pid): int(parent) for pid, parent, *_ in table}
        return {
            parents[int(pid)]: Path(program).parent
            for pid, _, program, *_ in table
            if program.endswith("/iostrata-record") and self._is_ours(int(pid), parents)
        }

    def _is_ours(self, pid: int, parents: dict[int, int]) -> bool:
        while pid in parents and pid != self.pid:
            pid = parents[pid]
        return pid == self.pid


@contextmanager
def running(directory: Path) -> Iterator[Sshd]:
    port = _free_port()
    for name in ("host_key", "user_key"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name))
    (directory / "server").write_text(SERVER.format(port=port, directory=directory))
    (directory / "client").write_text(CLIENT.format(port=port, directory=directory))
    PRIVILEGE_SEPARATION.mkdir(exist_ok=True)
    command = [str(SSHD), "-D", "-e", "-f", str(directory / "server")]
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log) as process,
    ):
        try:
            _wait_for(port, process)
            yield Sshd(f"ssh -F {directory / 'client'}", process.pid)
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.02)


def _run(*words: str) -> str:
    done = subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    return done.stdout.decode()
