# SPDX-License-Identifier: Apache-2.0
"""``python -m iostrata`` as often as tests ask for it, started once.

Most of what such a call takes is its start, which is the same each time. Here one process goes
through it, and then forks for whoever asks: what it forks is the program as it is before it has
read its first word, with words, directory and streams of its own, in a process of its own, which
ends as Python ends one. What starts, and what a signal does meanwhile, real starts prove.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path

MOST_BYTES = 1 << 17
STREAMS = 3
# The test that runs, which pytest tells: nobody else reads it.
TOLD = "PYTEST_CURRENT_TEST"
# What commands load once they know what they are asked for.
LATER = ("iostrata.cli.run", "iostrata.cli.record", "iostrata.cli.replay", "iostrata.analysis")


class Started:
    """The process that has started; none, before the first asks for it."""

    def __init__(self) -> None:
        self._environment = environment()
        self._asking: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def fits(self) -> bool:
        """Whether who starts now finds the same environment: all else is given."""
        return self._environment == environment()

    def run(
        self, words: Sequence[str], cwd: Path | None, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """As ``subprocess.run`` with what it prints caught, as text."""
        if self._asking is None:
            self._asking = self._start()
        request = json.dumps([str(cwd or Path.cwd()), *words]).encode()
        with ThreadPoolExecutor() as readers, ExitStack() as stack:
            ends = [os.pipe() for _ in ("standard output", "standard error")]
            sources = [stack.enter_context(os.fdopen(source)) for source, _ in ends]
            # Closed first, whatever happens: the program is killed, and so what it says ends.
            told, telling = (stack.enter_context(one) for one in socket.socketpair())
            files = [0, *(end for _, end in ends), telling.fileno()]
            try:
                socket.send_fds(self._asking, [request], files)
            finally:
                for _, end in ends:
                    os.close(end)
                telling.close()
            texts = [readers.submit(source.read) for source in sources]
            told.settimeout(timeout_s)
            try:
                status = int(told.recv(MOST_BYTES))
            except TimeoutError:
                raise subprocess.TimeoutExpired(list(words), timeout_s) from None
            out, err = (text.result() for text in texts)
        return subprocess.CompletedProcess(list(words), status, out, err)

    def end(self) -> None:
        if self._asking is not None and self._server is not None:
            self._asking.close()
            self._server.communicate()

    def _start(self) -> socket.socket:
        asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with asked:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.started"],
                cwd=Path(__file__).parent.parent,
                stdin=asked.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        return asking


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != TOLD}


def serve() -> None:
    """What asks is the standard input; returns in the process that is the program."""
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    cli = import_module("iostrata.__main__")._loaded()
    for name in LATER:
        import_module(name)
    os.environ.pop(TOLD, None)
    with socket.socket(fileno=os.dup(0)) as asked:
        while True:
            request, files, _, _ = socket.recv_fds(asked, MOST_BYTES, STREAMS + 1)
            if not request:
                sys.exit()
            if not os.fork():
                break
            for file in files:
                os.close(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, telling = files
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    program = os.fork()
    if program:
        _tell(program, telling)
    os.close(telling)
    signal.signal(signal.SIGINT, interrupted)
    cwd, *words = json.loads(request)
    os.chdir(cwd)
    sys.path[0] = cwd
    sys.argv = [str(cli.__file__), *words]
    cli.main()


def _tell(program: int, telling: int) -> None:
    """Ends this process with its program, which is killed where nobody asks for it any more."""
    for number in range(STREAMS):
        os.close(number)
    ended = os.pidfd_open(program)
    if ended not in select.select([ended, telling], [], [])[0]:
        os.kill(program, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    with suppress(BrokenPipeError):
        os.write(telling, str(status).encode())
    os._exit(0)


if __name__ == "__main__":
    serve()
