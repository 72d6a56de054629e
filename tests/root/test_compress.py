# SPDX-License-Identifier: Apache-2.0
"""``--compress`` on this kernel: the same recording in fewer bytes, however it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from iostrata.errors import RecorderError
from iostrata.trace.frames import contents
from iostrata.trace.packet import HEAD
from iostrata.trace.read import Trace, read_trace
from iostrata.trace.stream import RECORDER_CPU
from tests.root.conftest import iostrata
from tests.root.test_record import METHODS, WRITES, ending, found, good, writer

MANY = 3000
# By then the recorder has told of a second or two.
TOLD_BYTES = 5000
# Of one process that makes all writes, recorded by two recorders at once.
TWICE = 'read go; exec "$@"'


def unpacked(machine: Path, target: Path) -> Path:
    """The same with plain streams."""
    shutil.copytree(machine, target)
    for stream in target.glob("cpu_*.zst"):
        packets = [content for _, content in contents(stream.read_bytes())]
        assert all(isinstance(packet, bytes) for packet in packets)
        stream.with_suffix("").write_bytes(b"".join(map(bytes, packets)))  # type: ignore[arg-type]
        stream.unlink()
    return target


def sizes_of(stream: Path) -> list[int]:
    """Of each frame's content, and what its packet says that it has."""
    found = [content for _, content in contents(stream.read_bytes()) if isinstance(content, bytes)]
    assert [HEAD.unpack_from(one)[6] // 8 for one in found] == [len(one) for one in found]
    return [len(one) for one in found]


def streams(machine: Path) -> list[str]:
    return sorted(path.name for path in machine.glob("cpu_*") if path.stat().st_size)


@pytest.mark.parametrize("method", METHODS)
def test_each_packet_is_a_frame_and_each_write_is_told(method: str, disk: Path) -> None:
    done = iostrata("record", "-o", "out", "--compress", "--", *writer(method), cwd=disk)
    good(done.returncode, done.stderr)
    machine = disk / "out" / "local"
    assert streams(machine)
    for name in streams(machine):
        assert name.endswith(".zst")
        assert sizes_of(machine / name)
    assert not read_trace(machine).damage
    table = iostrata("replay", "out", "--json", "-", cwd=disk)
    good(table.returncode, table.stderr)
    assert found(json.loads(table.stdout)) == WRITES


def test_it_is_the_recording_that_it_is_without(recorder: Path, disk: Path) -> None:
    """Two recorders of one process: in both are its calls, at times that lie close together."""
    words = ["sh", "-c", TWICE, "sh", *writer("fdatasync", WRITES)]
    traces: dict[str, Trace] = {}
    with ExitStack() as stack:
        command = stack.enter_context(subprocess.Popen(words, cwd=disk, stdin=subprocess.PIPE))
        recorders = {}
        for name, more in (("plain", []), ("framed", ["--compress"])):
            asked = [str(recorder), "-o", name, "--pid", str(command.pid), "--status-fd", "1"]
            process = subprocess.Popen([*asked, *more], cwd=disk, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            recorders[name] = process
            assert process.stdout
            while not process.stdout.readline().startswith("ready"):
                assert process.poll() is None
        command.communicate(b"\n")
        for process in recorders.values():
            process.terminate()
            process.communicate()
    for name in recorders:
        traces[name] = read_trace(disk / name)
        assert not traces[name].damage
    one, other = (traces[name].points["syscall"] for name in ("plain", "framed"))
    for field in ("call", "result", "size_bytes", "tid", "inode"):
        assert one[field].tolist() == other[field].tolist()
    plain, framed = (
        sum(path.stat().st_size for path in (disk / name).glob("cpu_*")) / events_of(traces[name])
        for name in ("plain", "framed")
    )
    assert plain >= 64
    assert framed < plain / 2


def events_of(trace: Trace) -> int:
    return sum(stream.event_count for stream in trace.streams if stream.cpu != RECORDER_CPU)


def test_of_one_that_was_killed_all_whole_frames_are_read(recorder: Path, disk: Path) -> None:
    asked = [str(recorder), "-o", "out", "--compress", "--", *writer("fdatasync", 10**6)]
    with subprocess.Popen(asked, cwd=disk, start_new_session=True) as process:
        try:
            own = disk / "out" / "recorder"
            while not own.exists() or own.stat().st_size < TOLD_BYTES:
                assert process.poll() is None
                time.sleep(0.05)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    trace = read_trace(disk / "out")
    assert any("the recorder still runs, was killed, or" in line for line in trace.damage)
    plain = read_trace(unpacked(disk / "out", disk / "plain"))
    assert plain.event_count == trace.event_count > 0
    assert plain.losses.begin_ns.tolist() == trace.losses.begin_ns.tolist()


def test_a_full_disk(disk: Path) -> None:
    """Its files end with whole frames, and the command goes on."""
    small = disk / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(small)], check=True)
    try:
        done = iostrata(
            "record", "-o", str(small / "out"), "--compress", "--",
            *ending(writer("fdatasync", MANY)), cwd=disk,
        )  # fmt: skip
        shutil.copytree(small / "out", disk / "out", dirs_exist_ok=True)
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert (disk / "ended").exists()
    assert done.returncode == RecorderError.status, done.stderr
    assert "No space left on device" in done.stderr
    for name in streams(disk / "out" / "local"):
        sizes_of(disk / "out" / "local" / name)
        assert not [line for line in read_trace(disk / "out" / "local").damage if "cpu_" in line]


def test_a_limit_is_of_what_is_written(recorder: Path, tmp_path: Path) -> None:
    """Of frames, and not of what they hold."""
    limit = 128 << 10
    words = ["sh", "-c", f'ulimit -f {limit >> 9}; exec "$@"', "sh", str(recorder), "-o", "out"]
    writes = [word.replace("% 64", "% 4") for word in writer("fdatasync", MANY)]
    command = ["sh", "-c", '"$@"; touch done', "sh", *writes]
    done = subprocess.run(
        [*words, "--compress", "--", *command],
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert "File too large" in done.stderr
    assert done.returncode > 0
    assert (tmp_path / "done").exists()
    whole = max(sum(sizes_of(tmp_path / "out" / name)) for name in streams(tmp_path / "out"))
    assert whole > limit
    assert all((tmp_path / "out" / name).stat().st_size <= limit
               for name in streams(tmp_path / "out"))  # fmt: skip


def test_another_one_takes_its_place(disk: Path) -> None:
    """Of the one with frames nothing is left beside the one without."""
    command = ["--", *writer("fdatasync", 3)]
    for more in (["--compress"], []):
        done = iostrata("record", "-o", "out", "--force", *more, *command, cwd=disk)
        good(done.returncode, done.stderr)
    names = [path.name for path in (disk / "out" / "local").iterdir()]
    assert not [name for name in names if name.endswith(".zst")]
    assert [name for name in names if name.startswith("cpu_")]
