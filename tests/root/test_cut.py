# SPDX-License-Identifier: Apache-2.0
"""Calls that are under way when a recording begins, or ends, are counted, and told of."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from iostrata.recording import open_recording
from iostrata.trace.layout import (
    CALL_FSYNC,
    CALL_PWRITE64,
    CALL_PWRITEV2,
    CALL_SENDFILE,
    CALL_SPLICE,
)
from tests.root.conftest import IOSTRATA, iostrata, serve_slowly

PATIENCE_S = 60.0
BEGUN_SOURCE = Path(__file__).parent / "programs" / "begun.c"
# Where a thread sleeps until the file's daemon has answered.
WAITS = re.compile("request_wait_answer|fuse")

# Does what each line of its input says, to a file, and says when it is done.
PROGRAM = """
import os, sys
synced, durable = (os.open(sys.argv[1], os.O_RDWR | flag) for flag in (0, os.O_DSYNC))
zero = os.open("/dev/zero", os.O_RDONLY)
pipe, into = os.pipe()
does = {
    "fsync": lambda: os.fsync(synced),
    "write": lambda: os.pwrite(durable, bytes(4096), 0),
    "write-by-flag": lambda: os.pwritev(synced, [bytes(4096)], 0, os.RWF_DSYNC),
    "sendfile": lambda: os.lseek(durable, 0, 0) or os.sendfile(durable, zero, None, 4096),
    "splice": lambda: os.write(into, bytes(4096)) and os.splice(pipe, durable, 4096, None, 0),
}
for line in sys.stdin:
    does[line.strip()]()
    print("done", flush=True)
"""


class Program:
    """One process that syncs, and writes synchronously, when it is asked to."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        stack.enter_context(self._process)
        stack.callback(self._process.kill)
        self.pid = self._process.pid

    def begin(self, call: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{call}\n")
        self._process.stdin.flush()

    def done(self) -> None:
        assert self._process.stdout
        assert self._process.stdout.readline() == "done\n"

    def hang(self, call: str) -> None:
        """Once it is in the call, which does not return."""
        self.begin(call)
        since = time.monotonic()
        while not WAITS.search(Path(f"/proc/{self.pid}/wchan").read_text()):
            assert time.monotonic() - since < PATIENCE_S
            time.sleep(0.01)


@contextmanager
def recorded(place: Path, *options: str) -> Iterator[None]:
    """While it is recorded, no shorter and no longer."""
    for name in ("begun", "over"):
        os.mkfifo(place / name)
    command = ("sh", "-c", f"echo > {place}/begun; read _ < {place}/over")
    begun = os.open(place / "begun", os.O_RDWR)
    running = subprocess.Popen([*IOSTRATA, "record", "-o", str(place / "recording"), *options, "--",
                                *command], stderr=subprocess.PIPE, text=True)  # fmt: skip
    with running:
        ready = select.select([begun], [], [], PATIENCE_S)[0]
        os.close(begun)
        assert ready
        yield
        (place / "over").write_text("\n")
        assert running.stderr
        said = running.stderr.read()
    assert running.returncode == 0, said


NUMBERS = {
    "fsync": CALL_FSYNC,
    "write": CALL_PWRITE64,
    "write-by-flag": CALL_PWRITEV2,
    "sendfile": CALL_SENDFILE,
    "splice": CALL_SPLICE,
}


@pytest.mark.parametrize(
    ("call", "chosen"), [*((call, True) for call in NUMBERS), ("write", False)]
)
def test_calls_that_hang_at_both_ends(call: str, chosen: bool, disk: Path) -> None:
    """Of chosen processes, and of the whole machine."""
    image = disk / "image"
    image.write_bytes(bytes(1 << 20))
    with ExitStack() as stack:
        server = serve_slowly(image, 0.001, stack)
        early, late = Program(image, stack), Program(image, stack)
        stack.callback(os.kill, server, signal.SIGCONT)
        early.begin(call)
        early.done()
        os.kill(server, signal.SIGSTOP)
        early.hang(call)
        pids = [word for one in (early, late) for word in ("--pid", str(one.pid))]
        with recorded(disk, *(pids if chosen else ["--all"])):
            os.kill(server, signal.SIGCONT)
            early.done()
            for _ in range(3):
                late.begin(call)
                late.done()
            os.kill(server, signal.SIGSTOP)
            late.hang(call)
            hung_ns = time.monotonic_ns()
            time.sleep(0.2)
    recording = disk / "recording"
    (trace,) = open_recording(recording).traces()
    told = trace.points["syscall_cut"].integers("tgid", "call", "enter_ns")
    number = NUMBERS[call]
    of = {pid: told["tgid"].tolist().index(pid) for pid in (early.pid, late.pid)}
    assert [told["call"][row] for row in of.values()] == [number, number]
    assert told["enter_ns"][of[early.pid]] == 0
    assert told["enter_ns"][of[late.pid]] <= hung_ns
    assert told["time_ns"][of[late.pid]] - hung_ns >= 200_000_000
    if not chosen:
        return
    assert sorted(told["tgid"].tolist()) == sorted([early.pid, late.pid])
    done = iostrata("replay", str(recording), "--json", "-")
    document = json.loads(done.stdout)
    left_out = {"begun before the trace": 1, "still running at the end": 1}
    assert document["writes"] == {"analysed": 3, "left_out": left_out}, done.stderr


@pytest.mark.parametrize(("engine", "results"), [("uring", ["0", "4096"]), ("aio", ["0"])])
def test_requests_that_were_submitted_before(engine: str, results: list[str], disk: Path) -> None:
    """Their completions are in the recording, in which nothing else tells of them."""
    image = disk / "image"
    image.write_bytes(bytes(1 << 20))
    begun = disk / "submits"
    subprocess.run(["cc", "-Wall", "-Werror", "-o", begun, BEGUN_SOURCE], check=True)
    with ExitStack() as stack:
        server = serve_slowly(image, 0.001, stack)
        stack.callback(os.kill, server, signal.SIGCONT)
        late = Program(image, stack)
        early = subprocess.Popen(
            [begun, image, engine], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        stack.enter_context(early)
        stack.callback(early.kill)
        assert early.stdout
        assert early.stdin
        assert early.stdout.readline() == "opened\n"
        os.kill(server, signal.SIGSTOP)
        early.stdin.write("\n")
        early.stdin.flush()
        assert early.stdout.readline() == "submitted\n"
        with recorded(disk, "--pid", str(early.pid), "--pid", str(late.pid)):
            os.kill(server, signal.SIGCONT)
            assert sorted(early.communicate("\n", PATIENCE_S)[0].split()) == results
            late.begin("fsync")
            late.done()
    done = iostrata("replay", str(disk / "recording"), "--json", "-")
    document = json.loads(done.stdout)
    assert document["writes"] == {
        "analysed": 1, "left_out": {"begun before the trace": len(results)},
    }  # fmt: skip
