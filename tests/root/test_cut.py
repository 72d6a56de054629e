# SPDX-License-Identifier: Apache-2.0
"""Calls that are under way when a recording begins, or ends, are counted, and told of."""

from __future__ import annotations

import errno
import json
import os
import re
import select
import shutil
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
from tests.root.conftest import IOSTRATA, iostrata, remove_group, serve_slowly
from tests.root.test_devices import device_of
from tests.root.test_who import hierarchy

PATIENCE_S = 60.0
BEGUN_SOURCE = Path(__file__).parent / "programs" / "begun.c"
# Where a thread sleeps until the file's daemon has answered, or its file system is thawed.
WAITS = re.compile("request_wait_answer|fuse|percpu_rwsem|percpu_down_read")

# Does what each line of its input says, to a file, and says when it is done.
PROGRAM = """
import os, sys
synced, durable = (os.open(sys.argv[1], os.O_RDWR | flag) for flag in (0, os.O_DSYNC))
zero = os.open("/dev/zero", os.O_RDONLY)
pipe, into = os.pipe()
does = {
    "fsync": lambda: os.fsync(synced),
    "write": lambda: os.pwrite(durable, bytes(4096), 0),
    "plain": lambda: os.pwrite(synced, bytes(4096), 0),
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

    def do(self, call: str) -> None:
        self.begin(call)
        self.done()

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
        (place / name).unlink(missing_ok=True)
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


@contextmanager
def frozen(place: Path) -> Iterator[None]:
    """While nobody may write to a file system."""
    if not shutil.which("fsfreeze"):
        pytest.skip("fsfreeze is not installed")
    subprocess.run(["fsfreeze", "--freeze", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(place)], check=True)


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
        early.do(call)
        os.kill(server, signal.SIGSTOP)
        early.hang(call)
        pids = [word for one in (early, late) for word in ("--pid", str(one.pid))]
        with recorded(disk, *(pids if chosen else ["--all"])):
            os.kill(server, signal.SIGCONT)
            early.done()
            for _ in range(3):
                late.do(call)
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


@pytest.mark.parametrize("file_system", ["ext4"], indirect=True)
def test_who_lets_go_on_is_told(file_system: Path, disk: Path) -> None:
    """No event tells what a frozen file system's writers wait for: who thaws it is named."""
    with ExitStack() as stack:
        program = Program(touched(file_system / "file"), stack)
        program.do("write")
        with recorded(disk, "--pid", str(program.pid)):
            program.do("write")
            with frozen(file_system):
                program.hang("write")
                time.sleep(0.2)
            program.done()
    done = iostrata("replay", str(disk / "recording"), "--json", "-")
    document = json.loads(done.stdout)
    assert document["writes"]["analysed"] == 2
    first = document["quality"]["wakers"][0]
    assert first["process"] == "fsfreeze"
    residual_ns = document["residual"]["mean_ns"]
    assert first["mean_ns"] >= 0.95 * residual_ns >= 0.95 * 200e6 / 2


# One that has a file's lock for long, and several that it is passed on by.
NEIGHBOUR = """
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(15, sys.argv[1].encode())
file, many, end = os.open(sys.argv[2], os.O_RDWR), bytes(32 << 20), time.monotonic() + 4
while time.monotonic() < end:
    if sys.argv[1] == "holder":
        os.pwrite(file, many, 1 << 20)
        os.ftruncate(file, 1 << 20)
        time.sleep(0.02)
    else:
        os.pwrite(file, b"x", 0)
        time.sleep(0.0003)
"""


@pytest.mark.parametrize("file_system", ["ext4"], indirect=True)
def test_who_only_passes_a_lock_on_is_not_named(file_system: Path, disk: Path) -> None:
    file = touched(file_system / "file")
    with ExitStack() as stack:
        program = Program(file, stack)
        program.do("write")
        with recorded(disk, "--pid", str(program.pid)):
            for name in ("holder", *3 * ["innocent"]):
                command = [sys.executable, "-c", NEIGHBOUR, name, str(file)]
                running = subprocess.Popen(command)
                stack.callback(running.wait)
                stack.callback(running.kill)
            time.sleep(0.5)
            for _ in range(100):
                program.do("write")
    done = iostrata("replay", str(disk / "recording"), "--json", "-")
    document = json.loads(done.stdout)
    told = {one["process"]: one["mean_ns"] for one in document["quality"].get("wakers", [])}
    # It has the lock itself for some microseconds at a time.
    assert told.get("innocent", 0) <= 0.1 * document["residual"]["mean_ns"], told


CHOSEN = ("pid", "comm", "cgroup", "all", "device")
HANGING = "still running, and began before"
GROUP = f"iostrata-test-{os.getpid()}"


def choice(by: str, pids: list[int], device: str) -> list[str]:
    return {
        "pid": [word for pid in pids for word in ("--pid", str(pid))],
        "comm": ["--comm", Path(sys.executable).name],
        "cgroup": ["--cgroup", f"/{GROUP}"],
        "all": ["--all"],
        "device": ["--all", "--device", device],
    }[by]


@pytest.mark.parametrize("file_system", ["ext4"], indirect=True)
@pytest.mark.parametrize(
    ("call", "by"),
    [*(("write", by) for by in CHOSEN), *((one, "pid") for one in ("write-by-flag", "sendfile"))],
)
def test_calls_that_hang_all_the_while(call: str, by: str, file_system: Path, disk: Path) -> None:
    """Stuck before, during and after; beside one that writes, and one that was stopped."""
    with ExitStack() as stack:
        group = hierarchy() / GROUP
        group.mkdir()
        stack.callback(remove_group, group)
        before, during, after, stopped = (
            Program(touched(file_system / name), stack)
            for name in ("before", "during", "after", "stopped")
        )
        free = Program(touched(disk / "free"), stack)
        programs = (before, during, after, stopped, free)
        for program in programs:
            (group / "cgroup.procs").write_text(str(program.pid))
            program.do("write")
        os.kill(stopped.pid, signal.SIGSTOP)
        with frozen(file_system):
            before.hang(call)
            device = device_of(file_system)
            pids = [program.pid for program in programs]
            with recorded(disk, *choice(by, pids, device)):
                during.hang(call)
                free.do("write")
            after.hang(call)
        for program in (before, during, after):
            program.done()
    recording = disk / "recording"
    (trace,) = open_recording(recording).traces()
    told = trace.points["syscall_cut"].integers("tgid", "enter_ns", "result", "call", "dev")
    seen = {pid: row for row, pid in enumerate(told["tgid"].tolist()) if pid in pids}
    assert set(seen) == {before.pid, during.pid}
    assert told["enter_ns"][seen[before.pid]] == 0
    assert told["enter_ns"][seen[during.pid]] > 0
    assert {told["result"][row] for row in seen.values()} == {-errno.EINPROGRESS}
    assert {told["call"][row] for row in seen.values()} == {NUMBERS[call]}
    assert len({told["dev"][row] for row in seen.values()}) == 1
    done = iostrata("replay", str(recording), "--json", "-")
    if by == "pid":
        left_out = {"still running at the end": 1, HANGING: 1}
        document = json.loads(done.stdout)
        assert document["writes"] == {"analysed": 1, "left_out": left_out}, done.stderr


@pytest.mark.parametrize("file_system", ["ext4"], indirect=True)
def test_that_all_calls_hung_is_said(file_system: Path, disk: Path) -> None:
    """And not that the filter were wrong."""
    with ExitStack() as stack:
        program = Program(touched(file_system / "file"), stack)
        program.do("write")
        with frozen(file_system):
            program.hang("write")
            with recorded(disk, "--pid", str(program.pid)):
                pass
        program.done()
    done = iostrata("replay", str(disk / "recording"))
    assert "no synchronous write ended here: one call hung all the while" in done.stderr


@pytest.mark.parametrize("call", ["fsync", "splice"])
def test_that_a_file_that_nobody_answers_for_hangs(call: str, disk: Path) -> None:
    """Nor does it answer to whoever looks at it: the recorder does not ask."""
    image = touched(disk / "image")
    with ExitStack() as stack:
        server = serve_slowly(image, 0.001, stack)
        program = Program(image, stack)
        stack.callback(os.kill, server, signal.SIGCONT)
        program.do("write")
        os.kill(server, signal.SIGSTOP)
        program.hang(call)
        with recorded(disk, "--all"):
            pass
    (trace,) = open_recording(disk / "recording").traces()
    told = trace.points["syscall_cut"].integers("tgid", "enter_ns", "call")
    row = told["tgid"].tolist().index(program.pid)
    assert (told["call"][row], told["enter_ns"][row]) == (NUMBERS[call], 0)


@pytest.mark.parametrize("file_system", ["ext4"], indirect=True)
def test_plain_writes_that_a_mount_makes_synchronous_hang(file_system: Path, disk: Path) -> None:
    with ExitStack() as stack:
        program = Program(touched(file_system / "file"), stack)
        for options in ("remount", "remount,sync"):
            subprocess.run(["mount", "-o", options, str(file_system)], check=True)
            program.do("plain")
            with frozen(file_system):
                program.hang("plain")
                with recorded(disk, "--pid", str(program.pid), "--force"):
                    pass
            program.done()
            done = iostrata("replay", str(disk / "recording"))
            assert ("one call hung all the while" in done.stderr) == ("sync" in options)


WRITES = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DSYNC)
print("begun", flush=True)
while True:
    os.pwrite(fd, bytes(4096), 0)
"""


def test_who_is_stopped_or_frozen_hangs_in_no_call(disk: Path) -> None:
    """It is on its way out of the last one, as which /proc still has it."""
    with ExitStack() as stack:
        group = hierarchy() / GROUP
        group.mkdir()
        stack.callback(remove_group, group)
        writers = []
        for name in ("stopped", "frozen"):
            words = [sys.executable, "-c", WRITES, str(touched(disk / name))]
            writer = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))
            stack.callback(writer.kill)
            assert writer.stdout
            assert writer.stdout.readline()
            writers.append(writer.pid)
        time.sleep(0.2)
        (group / "cgroup.procs").write_text(str(writers[1]))
        (group / "cgroup.freeze").write_text("1")
        stack.callback((group / "cgroup.freeze").write_text, "0")
        os.kill(writers[0], signal.SIGSTOP)
        time.sleep(0.2)
        with recorded(disk, *choice("pid", writers, "")):
            pass
    (trace,) = open_recording(disk / "recording").traces()
    assert not len(trace.points["syscall_cut"])


def touched(path: Path) -> Path:
    path.write_bytes(bytes(1 << 20))
    return path


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
            late.do("fsync")
    done = iostrata("replay", str(disk / "recording"), "--json", "-")
    document = json.loads(done.stdout)
    assert document["writes"] == {
        "analysed": 1, "left_out": {"begun before the trace": len(results)},
    }  # fmt: skip
