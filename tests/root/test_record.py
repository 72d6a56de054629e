# SPDX-License-Identifier: Apache-2.0
"""Real recordings on this kernel: counts, conservation, exit statuses, ends of every kind."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from iostrata.analysis import analyse
from iostrata.errors import STATUS_LOSSES, RecordingError
from iostrata.recording import open_recording
from iostrata.trace.read import read_metadata, read_trace
from tests.bench.test_bench import interrupted
from tests.root.conftest import IOSTRATA, iostrata

WRITES = 50
# Sleeps of a run: some machines' kernels hide events while certain tasks have a CPU.
UNSEEN = 3
METHODS = {
    "fdatasync": ("0", "os.fdatasync(fd)"),
    "fsync": ("0", "os.fsync(fd)"),
    "open_datasync": ("os.O_DSYNC", "None"),
    "open_sync": ("os.O_SYNC", "None"),
}


def writer(method: str, count: int = WRITES, pause_s: float = 0) -> list[str]:
    """A program that makes ``count`` synchronous writes of 8 kB."""
    flags, sync = METHODS[method]
    program = (
        "import os, time\n"
        f"fd = os.open('data', os.O_RDWR | os.O_CREAT | {flags})\n"
        f"for number in range({count}):\n"
        "    os.pwrite(fd, bytes(8192), number % 64 * 8192)\n"
        f"    {sync}\n"
        f"    time.sleep({pause_s})\n"
    )
    return [sys.executable, "-c", program]


def good(status: int, err: str) -> None:
    """A busy machine may lose events; then that is said, and has its status."""
    assert status in (0, STATUS_LOSSES), err


def found(document: dict[str, Any]) -> int:
    """Writes seen: analysed, or left out for a reason."""
    writes = document["writes"]
    return int(writes["analysed"] + sum(writes["left_out"].values()))


def conserved(document: dict[str, Any]) -> bool:
    """Exactly, for the whole and for every group."""
    return all(
        sum((layer["mean_ns"] for layer in table["layers"]), table["residual"]["mean_ns"])
        == table["total_ns"]["mean"]
        for table in (document, *document["groups"])
    )


def unseen_ns(document: dict[str, Any]) -> Any:
    """Of a write, on average: sleeps whose end no tool was told of, which the table tells."""
    unseen = document["quality"].get("unseen", [])
    assert sum(sleeps["count"] for sleeps in unseen) <= UNSEEN
    return sum(sleeps["mean_ns"] for sleeps in unseen)


@pytest.mark.parametrize("method", METHODS)
def test_every_write_is_found_and_adds_up(method: str, disk: Path) -> None:
    # A file that does not grow: what ends a growing one's writes are kernel workers, and how
    # long one worked that is met for the first time is not seen.
    with (disk / "data").open("wb") as data:
        data.write(bytes(64 * 8192))
        os.fsync(data.fileno())
    done = iostrata("run", "--json", "-", "--", *writer(method), cwd=disk)
    good(done.returncode, done.stderr)
    document = json.loads(done.stdout, parse_float=Decimal, parse_int=Decimal)
    assert [group["name"] for group in document["groups"]] == [method]
    assert found(document) == WRITES
    assert conserved(document)
    layers = {layer["layer"] for layer in document["layers"]}
    assert {"syscall", "device.data"} <= layers
    # Milliseconds of a busy machine may be anywhere, but they are not allowed to be nowhere.
    left = document["residual"]["mean_ns"] - unseen_ns(document)
    assert abs(left) < Decimal("0.05") * document["total_ns"]["mean"]


def test_no_program_is_skipped(disk: Path) -> None:
    """The recorder asks the kernel, and where programs are not preempted it has none to tell."""
    iostrata("record", "-o", "recording", "--", *writer("fdatasync"), cwd=disk)
    (trace,) = open_recording(disk / "recording").traces()
    assert "miss" in read_metadata(trace.directory).points
    assert len(trace.points["miss"]) == 0


def test_what_tells_how_events_lie_is_sealed(disk: Path) -> None:
    iostrata("record", "-o", "recording", "--", *writer("fdatasync"), cwd=disk)
    (trace,) = open_recording(disk / "recording").traces()
    metadata = trace.directory / "metadata"
    read_metadata(trace.directory)
    metadata.write_bytes(metadata.read_bytes().replace(b"block_rq_issue", b"blosk_rq_issue"))
    with pytest.raises(RecordingError, match="checksum mismatch"):
        read_metadata(trace.directory)


def detaches_alone(recorder: Path, directory: Path) -> bool:
    """Whether who gave the recorder a pipe saw its end sooner than that of the recorder's child."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = set(children.read_text().split())
    reader, writer = os.pipe()
    command = [str(recorder), "-o", str(directory), "--force", "--", "true"]
    subprocess.run(command, check=True, pass_fds=[writer])
    began = time.monotonic()
    os.close(writer)
    (child,) = (int(pid) for pid in set(children.read_text().split()) - before)
    assert os.read(reader, 1) == b""
    let_go = time.monotonic()
    os.close(reader)
    assert os.waitpid(child, 0)[1] == 0
    return let_go - began < time.monotonic() - let_go


def test_nobody_waits_until_all_is_detached(recorder: Path, tmp_path: Path) -> None:
    """Where we had no CPU for long, the child had ended before we looked."""
    adopts = 36  # PR_SET_CHILD_SUBREAPER: its children become ours
    libc = ctypes.CDLL(None)
    assert libc.prctl(adopts, 1, 0, 0, 0) == 0
    try:
        assert any(detaches_alone(recorder, tmp_path / "trace") for _ in range(5))
    finally:
        libc.prctl(adopts, 0, 0, 0, 0)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="CPUs have APIC ids on x86 only")
def test_processors_are_told(disk: Path) -> None:
    iostrata("record", "-o", "recording", "--", *writer("fdatasync", 1), cwd=disk)
    (trace,) = open_recording(disk / "recording").traces()
    ids = trace.facts.apic_ids
    assert len(ids) == len(set(ids.values())) == trace.env["machine_cpus"]
    (own,) = re.findall(r"^apicid\s*: (\d+)$", cpuinfo_of(max(ids)), re.MULTILINE)
    assert ids[max(ids)] == int(own)


def test_where_processors_lie_is_told(disk: Path) -> None:
    iostrata("record", "-o", "recording", "--", *writer("fdatasync", 1), cwd=disk)
    (trace,) = open_recording(disk / "recording").traces()
    columns = ["lscpu", "--parse=CPU,NODE,SOCKET,CORE"]
    told = subprocess.run(columns, check=True, capture_output=True, text=True).stdout
    rows = [line.split(",") for line in told.splitlines() if not line.startswith("#")]
    assert {str(cpu) for cpu in trace.facts.topology} == {cpu for cpu, *_ in rows}
    for cpu, node, *_ in rows:
        place = trace.facts.topology[int(cpu)]
        assert str(place.node) == (node or "None")
        core = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/core_id").read_text()
        assert place.core == int(core)


def test_network_cards_are_told(disk: Path) -> None:
    iostrata("record", "-o", "recording", "--", *writer("fdatasync", 1), cwd=disk)
    (trace,) = open_recording(disk / "recording").traces()
    drivers = Path("/sys/class/net").glob("*/device/driver")
    assert trace.facts.cards == {one.parts[-3]: one.resolve().name for one in drivers}


def cpuinfo_of(cpu: int) -> str:
    parts = Path("/proc/cpuinfo").read_text().split("\n\n")
    return next(part for part in parts if re.match(rf"processor\s*: {cpu}\n", part))


def test_recorded_is_replayable(disk: Path) -> None:
    done = iostrata("run", "-o", "recording", "--", *writer("fdatasync"), cwd=disk)
    good(done.returncode, done.stderr)
    again = iostrata("replay", "recording", cwd=disk, before=("setpriv", "--bounding-set=-all"))
    assert again.returncode == done.returncode, again.stderr
    assert again.stdout == done.stdout
    assert iostrata("dump", "recording", cwd=disk).stdout.count(" syscall ") >= 2 * WRITES
    facts = {path.name for path in (disk / "recording" / "local" / "facts").iterdir()}
    (machine,) = open_recording(disk / "recording").machines
    assert machine.facts.keys() == facts


@pytest.mark.parametrize(
    ("command", "status", "story"),
    [
        (["sh", "-c", "exit 3"], 3, "the command ended with status 3"),
        (["sh", "-c", "kill -TERM $$"], 143, "the command ended with status 143 (SIGTERM)"),
        (["true"], 5, "holds no synchronous write\n"),
        (["true"], 5, "what the command has a server do (psql, mysql) is the server's: --comm"),
        (
            ["sh", "-c", "sleep 2 >/dev/null 2>&1 &"],
            5,
            "holds no synchronous write, but a process of its tree still ran as the command ended",
        ),
        (["/nonexistent"], 127, "/nonexistent: command not found"),
        (["/etc/passwd"], 126, "/etc/passwd: may not be executed"),
    ],
)
def test_exit_status(command: list[str], status: int, story: str, disk: Path) -> None:
    done = iostrata("run", "--", *command, cwd=disk)
    assert done.returncode == status
    assert story in done.stderr
    assert "Traceback" not in done.stderr


def test_of_what_was_chosen_the_filter_may_be_wrong(disk: Path) -> None:
    done = iostrata("run", "--comm", "nobody", "--", "true", cwd=disk)
    assert "check that the filter names the process that makes them" in done.stderr
    device = Path(
        "/sys/dev/block", f"{os.major(disk.stat().st_dev)}:{os.minor(disk.stat().st_dev)}"
    )
    done = iostrata("run", "--device", device.resolve().name, "--", "true", cwd=disk)
    assert "check that the file is on the --device" in done.stderr


def test_a_failing_command_still_has_its_table(disk: Path) -> None:
    command = [*writer("fsync")]
    command[-1] += "raise SystemExit(3)\n"
    done = iostrata("run", "--", *command, cwd=disk)
    assert done.returncode == 3
    assert done.stdout.startswith(f"{WRITES} synchronous writes")


def test_what_outlives_the_command_is_told(disk: Path) -> None:
    """It ends when it is let go on: by the pipe, which closes with this test."""
    command = [*writer("fsync")]
    command[-1] += (
        "if not os.fork():\n    os.setsid()\n    os.close(1)\n    os.close(2)\n    os.read(0, 1)\n"
    )
    ours, theirs = os.pipe()
    try:
        done = subprocess.run(
            [*IOSTRATA, "run", "--", *command], cwd=disk, stdin=ours, capture_output=True,
            text=True, check=False, timeout=60,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    good(done.returncode, done.stderr)
    assert "not seen    what outlived the command: a process of its tree still ran" in done.stdout
    alone = iostrata("run", "--", *writer("fsync"), cwd=disk)
    good(alone.returncode, alone.stderr)
    assert "outlived" not in alone.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_midway_keeps_what_was_recorded(number: signal.Signals, disk: Path) -> None:
    command = [*IOSTRATA, "run", "--", *writer("fdatasync", 100_000, 0.001)]
    with subprocess.Popen(
        command,
        cwd=disk,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_for(disk / "data", process)
        time.sleep(0.5)
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert "unattributed" in out
    assert "iostrata" not in err or "this is a bug" not in err


def test_who_is_asked_to_end_before_it_records_lets_no_command_begin(
    disk: Path, recorder: Path
) -> None:
    """By a signal that the command is not sent, while programs are loaded."""
    for delay_s in (0.05, 0.15, 0.3):
        command = [
            str(recorder),
            "-o",
            str(disk / f"{delay_s}"),
            "--",
            "sh",
            "-c",
            "touch ran; read x",
        ]
        with subprocess.Popen(command, cwd=disk, stdin=subprocess.PIPE, text=True) as process:
            time.sleep(delay_s)
            was_begun = (disk / "ran").exists()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        assert (disk / "ran").exists() == was_begun
        (disk / "ran").unlink(missing_ok=True)


# Executes the rest of its words, with a signal that is held back until they wait for it.
SIGNALLED = """
import os, signal, sys
number = int(sys.argv[1])
signal.signal(number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, [number])
os.kill(os.getpid(), number)
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("what", [["--", "touch", "ran"], ["--all", "--duration", "5"]])
def test_a_recorder_that_is_asked_to_end_before_it_records_says_so(
    what: list[str], number: signal.Signals, disk: Path, recorder: Path
) -> None:
    """Its status was 0, and an empty recording was in the older one's place."""
    words = [str(recorder), "-o", str(disk / "recording"), "--force"]
    subprocess.run([*words, "--", *writer("fsync", 3)], cwd=disk, check=True)
    before = contents(disk / "recording")
    signalled = [sys.executable, "-c", SIGNALLED, str(number.value), *words, *what]
    done = subprocess.run(signalled, cwd=disk, capture_output=True, text=True, check=False)
    assert done.returncode == 128 + number
    assert f"{number.name} asked it to end before it recorded anything" in done.stderr
    assert not (disk / "ran").exists()
    assert contents(disk / "recording") == before


def contents(directory: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_a_filter_and_a_duration_instead_of_a_command(disk: Path) -> None:
    with subprocess.Popen(writer("fdatasync", 100_000, 0.001), cwd=disk) as other:
        try:
            done = iostrata(
                "run", "--pid", str(other.pid), "--duration", "1", "--json", "-", cwd=disk
            )
        finally:
            other.terminate()
    good(done.returncode, done.stderr)
    document = json.loads(done.stdout)
    assert [group["name"] for group in document["groups"]] == ["fdatasync"]
    assert document["writes"]["analysed"] > 10


def test_a_command_beside_a_filter_only_says_how_long(disk: Path) -> None:
    """What it writes itself is not recorded."""
    with subprocess.Popen(writer("fdatasync", 100_000, 0.001), cwd=disk) as other:
        try:
            command = writer("open_datasync", 20, 0.02)
            done = iostrata("run", "--pid", str(other.pid), "--json", "-", "--", *command, cwd=disk)
        finally:
            other.terminate()
    good(done.returncode, done.stderr)
    document = json.loads(done.stdout)
    assert [group["name"] for group in document["groups"]] == ["fdatasync"]
    assert document["writes"]["analysed"] > 10


BY_A_THREAD = """
import os, sys, threading, time
def write():
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
    print(threading.get_native_id(), flush=True)
    while True:
        os.pwrite(file, b"x" * 512, 0)
        time.sleep(0.01)
threading.Thread(target=write).start()
"""


def test_a_threads_number_is_for_its_process(disk: Path) -> None:
    """All of which is recorded, as what it is."""
    words = [sys.executable, "-c", BY_A_THREAD, str(disk / "file")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout
            tid = int(program.stdout.readline())
            done = iostrata(
                "record", "--pid", str(tid), "--duration", "1", "-o", str(disk / "recording")
            )
        finally:
            program.kill()
    assert done.returncode == 0, done.stderr
    assert f"--pid {tid} is a thread of process {program.pid}" in done.stderr
    writes = analyse(open_recording(disk / "recording")).writes
    assert set(writes.tid.tolist()) == {tid}
    assert set(writes.tgid.tolist()) == {program.pid}


def test_two_recorders_at_once(disk: Path) -> None:
    places = [disk / "one", disk / "two"]
    for place in places:
        place.mkdir()
    processes = [
        subprocess.Popen(
            [*IOSTRATA, "run", "--json", "-", "--", *writer("fdatasync")],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for place in places
    ]
    for process in processes:
        out, err = process.communicate(timeout=120)
        good(process.returncode, err)
        # Each has its own command's writes, and none of the other's.
        assert found(json.loads(out)) == WRITES


def ending(command: Sequence[str]) -> list[str]:
    """The same, and a file tells that nobody ended it."""
    return ["sh", "-c", '"$@" && touch ended', "sh", *command]


def test_a_recording_that_is_removed_while_it_is_made(disk: Path) -> None:
    script = "while [ ! -e recording/local/cpu_0 ]; do sleep 0.1; done; rm -r recording; sleep 1"
    done = iostrata("record", "-o", "recording", "--", *ending(["sh", "-c", script]), cwd=disk)
    assert done.returncode == 6, done.stderr
    told = done.stderr.index("the command goes on, and is not recorded")
    assert told < done.stderr.index("was removed, and what was recorded with it")
    assert (disk / "ended").exists()


def test_a_full_disk(disk: Path) -> None:
    small = disk / "small"
    small.mkdir()
    if not shutil.which("mount"):
        pytest.skip("there is no mount")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(small)], check=True)
    try:
        done = iostrata(
            "record", "-o", str(small / "recording"), "--", *ending(writer("fdatasync", 2000)),
            cwd=disk,
        )  # fmt: skip
    finally:
        subprocess.run(["umount", str(small)], check=True)
    # What is recorded must not suffer from it.
    assert (disk / "ended").exists()
    assert done.returncode in (1, 6), done.stderr
    assert "No space left on device" in done.stderr
    assert "  try: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_may_be_another_users(disk: Path) -> None:
    disk.chmod(0o777)
    told = "id -un; echo $HOME; umask; grep NoNewPrivs /proc/self/status"
    dd = f"dd if=/dev/zero of=data bs=8k count={WRITES} oflag=dsync 2>/dev/null"
    done = iostrata(
        "run", "--user", "nobody", "--json", "table.json", "--", "sh", "-c", f"{told}; {dd}",
        cwd=disk,
    )  # fmt: skip
    good(done.returncode, done.stderr)
    user, home, umask, privileges = done.stdout.splitlines()[:4]
    assert (user, home, umask, privileges.split()) == (
        "nobody", "/nonexistent", "0022", ["NoNewPrivs:", "0"]
    )  # fmt: skip
    assert (disk / "data").owner() == "nobody"
    assert found(json.loads((disk / "table.json").read_text())) == WRITES


def test_the_recorder_keeps_little_of_what_root_may(disk: Path) -> None:
    script = "cat /proc/$PPID/task/*/status | grep -e CapEff -e CapBnd -e NoNewPrivs -e Seccomp:"
    sudo = ("env", "SUDO_UID=1234", "SUDO_GID=1235")
    done = iostrata("record", "-o", "out", "--", "sh", "-c", script, cwd=disk, before=sudo)
    good(done.returncode, done.stderr)
    told = {tuple(line.split()) for line in done.stdout.splitlines()}
    # BPF, PERFMON, SYS_PTRACE, KILL and DAC_READ_SEARCH.
    few = f"{1 << 39 | 1 << 38 | 1 << 19 | 1 << 5 | 1 << 2:016x}"
    assert told == {("CapEff:", few), ("CapBnd:", few), ("NoNewPrivs:", "1"), ("Seccomp:", "2")}
    made = [disk / "out", *(disk / "out").rglob("*")]
    assert {path.stat().st_uid for path in made} == {1234}
    assert not any(path.stat().st_mode & 0o077 for path in made), made


def test_without_rights(disk: Path) -> None:
    setpriv = shutil.which("setpriv")
    if not setpriv:
        pytest.skip("there is no setpriv")
    drop = (setpriv, "--bounding-set=-all", "--inh-caps=-all")
    done = iostrata("run", "--", "true", cwd=disk, before=drop)
    assert done.returncode == 4
    assert done.stderr.startswith("iostrata: recording with eBPF needs root")
    assert "  try: run it with sudo" in done.stderr
    assert iostrata("doctor", before=drop).returncode == 4
    plain = iostrata("bench", "-s", "0.01", cwd=disk, before=drop)
    assert plain.returncode == 0
    assert "no layers: recording with eBPF needs root" in plain.stderr
    assert "journ" not in plain.stdout


def test_bench_has_layers(disk: Path) -> None:
    done = iostrata("bench", "-s", "0.05", cwd=disk)
    good(done.returncode, done.stderr)
    head = done.stdout.splitlines()[0].split()
    assert head == ["ops/sec", "us/op", "cpu", "journ", "queue", "data", "flush", "wake", "other"]
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert list(disk.iterdir()) == []


def test_an_interrupted_bench_has_layers(disk: Path) -> None:
    status, out, err = interrupted(disk)
    assert status == 130, err
    assert "Traceback" not in err
    assert "ops/sec" in out
    assert "flush" in out
    assert "analysed" in out


@pytest.mark.parametrize("columns", ["60", "80"])
def test_a_terminal(columns: str, disk: Path) -> None:
    """Under a terminal of that width, with colours, nothing is wider."""
    shell = shutil.which("script")
    if not shell:
        pytest.skip("there is no script(1)")
    command = f"stty cols {columns}; {' '.join(IOSTRATA)} bench -s 0.01 2>&1"
    told = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES")}
    done = subprocess.run(
        [shell, "-qec", command, "/dev/null"],
        cwd=disk,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**told, "NO_COLOR": "1", "TERM": "xterm"},
    )
    good(done.returncode, done.stdout)
    assert [line for line in done.stdout.splitlines() if len(line) > int(columns)] == []


def test_sleeps_are_told_by_the_functions_they_were_in(tmp_path: Path) -> None:
    done = iostrata(
        "record", "--why", "-o", str(tmp_path / "r"), "--", *writer("fdatasync"), cwd=tmp_path
    )
    good(done.returncode, done.stderr)
    (trace,) = open_recording(tmp_path / "r").traces()
    resumed = trace.points["sched_resume"].integers("stack", "wake_ns")
    asleep = resumed["stack"][resumed["wake_ns"] > 0].tolist()
    stacks = [trace.facts.stacks[stack] for stack in asleep if stack >= 0]
    assert len(stacks) > WRITES / 2
    assert any("fdatasync" in name for functions in stacks for name in functions)


def test_what_a_hypervisor_took_is_asked_for(disk: Path) -> None:
    """At the begin and the end, of all CPUs."""
    before = stolen_ns()
    done = iostrata("record", "-o", "recording", "--", *writer("fsync", 3), cwd=disk)
    good(done.returncode, done.stderr)
    trace = read_trace(disk / "recording" / "local")
    told = [int(ns) for ns in trace.points["recorder"]["stolen_ns"]]
    assert before <= told[0] <= told[-1] <= stolen_ns()
    assert len(told) > 1


def stolen_ns() -> int:
    ticks = int(Path("/proc/stat").read_text().split()[8])
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def test_a_limit_of_files_sizes_is_told_as_a_full_disk_is(recorder: Path, tmp_path: Path) -> None:
    """What the streams of so many writes exceed, and their file does not: the command goes on."""
    words = ["sh", "-c", 'ulimit -f 1024; exec "$@"', "sh", str(recorder), "-o", "out", "--"]
    done = subprocess.run(
        [*words, "sh", "-c", '"$@"; touch done', "sh", *writer("fdatasync", 3000)],
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert "File too large" in done.stderr
    assert done.returncode > 0
    assert (tmp_path / "done").exists()
