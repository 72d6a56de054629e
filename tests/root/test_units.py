# SPDX-License-Identifier: Apache-2.0
"""Which calls are synchronous writes: real programs, counted against what bpftrace counts."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from tests.root.conftest import IOSTRATA, iostrata
from tests.root.test_devices import device_of

PREAMBLE = """
import ctypes, mmap, os, sqlite3, threading
libc = ctypes.CDLL(None, use_errno=True)
def opened(name, flags=0):
    return os.open(name, os.O_RDWR | os.O_CREAT | flags)
"""


def program(text: str) -> list[str]:
    return [sys.executable, "-c", PREAMBLE + text]


def recorded(place: Path, command: list[str], *options: str) -> Breakdown:
    recording = place / "recording"
    done = iostrata("record", "-o", str(recording), *options, "--", *command, cwd=place)
    assert done.returncode == 0, done.stderr
    found = analyse(open_recording(recording))
    total = found.time_ns.sum(axis=0) + found.residual_ns
    assert np.array_equal(total, found.writes.latency_ns)
    assert not found.left_out
    return found


def methods(found: Breakdown) -> Counter[str]:
    names = found.writes.names["method"]
    return Counter(names[code] for code in found.writes.codes["method"].tolist())


def of_method(found: Breakdown, method: str) -> np.ndarray:
    return np.flatnonzero(
        found.writes.codes["method"] == found.writes.names["method"].index(method)
    )


def test_a_directory_is_synchronised(disk: Path) -> None:
    found = recorded(
        disk,
        program(
            "directory = os.open('.', os.O_RDONLY)\n"
            "for number in range(10):\n"
            "    os.close(opened(f'file{number}'))\n"
            "    os.fsync(directory)\n"
            "    os.fdatasync(directory)\n"
        ),
    )
    assert methods(found) == {"fsync": 10, "fdatasync": 10}
    assert set(found.writes.inode.tolist()) == {disk.stat().st_ino}


def test_file_systems_are_synchronised(disk: Path) -> None:
    """What the thread wrote to any file is its own, and durable by whichever comes first."""
    found = recorded(
        disk,
        program(
            "one, other = opened('one'), opened('other')\n"
            "for call in os.sync, lambda: libc.syncfs(one):\n"
            "    os.write(one, bytes(3000))\n"
            "    os.write(other, bytes(1000))\n"
            "    call()\n"
            "    os.fsync(one)\n"
        ),
    )
    assert methods(found) == {"sync": 1, "syncfs": 1, "fsync": 2}
    for method in ("sync", "syncfs"):
        (row,) = of_method(found, method)
        assert found.writes.size_bytes[row] == 4000
        assert found.writes.pieces[row] == 3
    assert found.writes.size_bytes[of_method(found, "fsync")].tolist() == [0, 0]
    assert "all" in found.writes.names["device"]
    assert found.quality.plain_writes == 0


TWO_THREADS = """
written, synced = threading.Semaphore(0), threading.Semaphore(0)
def sync():
    own = opened('data')
    for _ in range(50):
        written.acquire()
        os.fdatasync(own)
        synced.release()
thread = threading.Thread(target=sync)
thread.start()
data = opened('data')
for number in range(50):
    os.pwrite(data, bytes(3000), number * 3000)
    written.release()
    synced.acquire()
thread.join()
os.pwrite(data, bytes(100), 150000)
os.fsync(data)
"""


def test_one_thread_writes_and_another_one_syncs(disk: Path) -> None:
    found = recorded(disk, program(TWO_THREADS))
    assert methods(found) == {"fdatasync": 50, "fsync": 1}
    assert found.writes.size_bytes.tolist() == [3000] * 50 + [100]
    assert found.writes.pieces.tolist() == [1] * 50 + [2]
    assert found.quality.plain_writes == 0


COPIES = """
source, pipe = opened('source'), os.pipe()
os.write(source, bytes(65536))
os.fsync(source)
for flags in 0, os.O_DSYNC, os.O_SYNC:
    target = opened(f'target{flags}', flags)
    for number in range(5):
        assert os.sendfile(target, source, 0, 8192) == 8192
        assert os.copy_file_range(source, target, 4096, number * 4096, 100000) == 4096
        assert os.splice(source, pipe[1], 4096, offset_src=0) == 4096
        assert os.splice(pipe[0], target, 4096) == 4096
        os.posix_fallocate(target, number * 65536, 65536)
        os.write(target, b'')
    if not flags:
        os.fsync(target)
"""


def test_a_file_that_takes_a_deleted_ones_inode_is_another(disk: Path) -> None:
    """Of twenty, as another program may make a file in between."""
    text = """
for _ in range(20):
    old = opened("old")
    number = os.fstat(old).st_ino
    os.write(old, bytes(100_000))
    os.close(old)
    os.unlink("old")
    new = opened("new")
    print(os.fstat(new).st_ino == number)
    os.write(new, bytes(10))
    os.fsync(new)
    os.close(new)
    os.unlink("new")
"""
    found = recorded(disk, program(text))
    assert found.writes.size_bytes.tolist() == [10] * 20
    assert found.writes.pieces.tolist() == [2] * 20
    assert found.quality.plain_writes == 20


def test_copies_to_synchronous_files_are_synchronous_writes(disk: Path) -> None:
    found = recorded(disk, program(COPIES))
    assert methods(found) == {"fsync": 2, "open_datasync": 20, "open_sync": 20}
    sizes = [4096, 8192, 4096, 0]
    for method in ("open_datasync", "open_sync"):
        rows = of_method(found, method)
        assert sorted(found.writes.size_bytes[rows].tolist()) == sorted(sizes * 5)
        assert (found.writes.pieces[rows] == 1).all()
    copied = of_method(found, "fsync")[-1]
    assert found.writes.size_bytes[copied] == 5 * sum(sizes)
    assert found.writes.pieces[copied] == 16


RANGES = """
data = opened('data')
os.write(data, bytes(400 * 1024))
for first, size in (0, 8192), (8192, 4096), (65536, 0):
    assert libc.sync_file_range(data, ctypes.c_long(first), ctypes.c_long(size), 7) == 0
os.fdatasync(data)
os.pwrite(data, bytes(8192), 8192)
os.pwrite(data, bytes(4096), 65536)
memory = mmap.mmap(data, 400 * 1024)
memory.flush(8192, 8192)
os.fsync(data)
"""


def test_a_range_is_what_it_makes_durable(disk: Path) -> None:
    found = recorded(disk, program(RANGES))
    by_method = {
        method: found.writes.size_bytes[of_method(found, method)].tolist()
        for method in found.writes.names["method"]
    }
    whole = 400 * 1024
    assert by_method == {
        "sync_file_range": [8192, 4096, whole - 65536],
        "fdatasync": [65536 - 12288],
        "msync": [8192],
        "fsync": [4096],
    }


# Two mappings side by side, of two files.
MAPPED = """
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
FIXED, WRITABLE, MS_SYNC = 0x10, mmap.PROT_READ | mmap.PROT_WRITE, 4
one, other = opened('one'), opened('other')
for data in one, other:
    os.write(data, bytes(65536))
    os.fsync(data)
def mapped(sharing):
    base = libc.mmap(None, 131072, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    for place, data in (base, one), (base + 65536, other):
        assert libc.mmap(place, 65536, WRITABLE, sharing | FIXED, data, 0) == place
    return base
"""


def sizes_by_method(found: Breakdown) -> dict[str, list[int]]:
    names = found.writes.names["method"]
    return {name: found.writes.size_bytes[of_method(found, name)].tolist() for name in names}


def told_of_mappings(found: Breakdown) -> list[str]:
    return [gap.reason for gap in found.quality.not_observed if gap.layer == "msync"]


def test_what_is_mapped_privately_is_not_made_durable(disk: Path) -> None:
    """The kernel syncs what is shared, and no other mapping (mm/msync.c)."""
    text = """
base = mapped(mmap.MAP_PRIVATE)
os.pwrite(one, bytes(65536), 0)
ctypes.memset(base, 1, 4)
assert libc.msync(base, 65536, MS_SYNC) == 0
os.fsync(one)
"""
    found = recorded(disk, program(MAPPED + text))
    assert sizes_by_method(found) == {"fsync": [65536, 65536, 65536]}
    assert not told_of_mappings(found)


def test_an_msync_claims_nothing_behind_its_mapping(disk: Path) -> None:
    text = """
base = mapped(mmap.MAP_SHARED)
os.ftruncate(one, 131072)
os.fsync(one)
os.pwrite(one, bytes(131072), 0)
assert libc.msync(base, 131072, MS_SYNC) == 0
os.fsync(one)
os.pwrite(one, bytes(65536), 0)
assert libc.msync(base, 65536, MS_SYNC) == 0
assert libc.msync(base, 0, MS_SYNC) == 0
os.fsync(one)
"""
    found = recorded(disk, program(MAPPED + text))
    assert sizes_by_method(found) == {
        "fsync": [65536, 65536, 0, 65536, 0],
        "msync": [65536, 65536],
    }
    assert told_of_mappings(found) == [
        "of 1 calls over several mappings, only the first one's file is known"
    ]


APPENDS = """
libc.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_uint]
class Vector(ctypes.Structure):
    _fields_ = [('base', ctypes.c_char_p), ('length', ctypes.c_size_t)]
libc.pwritev2.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_int]
vector = Vector(bytes(4096), 4096)
def written(data, flags):
    return libc.pwritev2(data, ctypes.byref(vector), 1, 8192, flags)
appended, plain = opened('appended', os.O_APPEND), opened('plain')
for data in appended, plain:
    os.write(data, bytes(65536))
    os.fsync(data)
def synced(data, place):
    assert libc.sync_file_range(data, place, 4096, 7) == 0
os.pwrite(appended, bytes(4096), 8192)
synced(appended, 8192)
synced(appended, 65536)
assert written(appended, 0) == 4096
synced(appended, 8192)
synced(appended, 65536 + 4096)
assert written(plain, RWF_APPEND) == 4096
synced(plain, 8192)
synced(plain, 65536)
if written(appended, RWF_NOAPPEND) == 4096:
    synced(appended, 65536 + 8192)
    synced(appended, 8192)
"""


def test_what_is_appended_lies_at_the_end_whatever_its_call_says(disk: Path) -> None:
    text = APPENDS.replace("RWF_APPEND", "16").replace("RWF_NOAPPEND", "32")
    found = recorded(disk, program(text))
    # Before Linux 6.9 there is no RWF_NOAPPEND.
    told = 8 if methods(found)["sync_file_range"] == 8 else 6
    assert methods(found) == {"fsync": 2, "sync_file_range": told}
    ranges = of_method(found, "sync_file_range")
    places = found.writes.offset_bytes[ranges].tolist()
    # A write begins before the range that makes it durable, and the place is the write's.
    assert list(zip(places, found.writes.size_bytes[ranges].tolist(), strict=True)) == [
        (65536, 4096), (8192, 0), (65536 + 4096, 4096), (8192, 0), (65536, 4096), (8192, 0),
        (8192, 4096), (65536 + 8192, 0),
    ][:told]  # fmt: skip
    assert not found.quality.plain_writes


AIO_APPENDS = """
setup, submit, collect = (206, 209, 208) if platform.machine() == 'x86_64' else (0, 2, 4)
libc.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_uint]
ring = ctypes.c_ulong()
assert libc.syscall(setup, 8, ctypes.byref(ring)) == 0
data = opened('appended', os.O_APPEND)
os.write(data, bytes(65536))
os.fsync(data)
buffer = ctypes.create_string_buffer(4096)
def appended():
    place = ctypes.addressof(buffer)
    block = struct.pack('<QLLHhLQQqQLL', 0, 0, 0, 1, 0, data, place, 4096, 8192, 0, 0, 0)
    block = ctypes.create_string_buffer(block, 64)
    blocks = (ctypes.c_void_p * 1)(ctypes.addressof(block))
    assert libc.syscall(submit, ring, ctypes.c_long(1), blocks) == 1
    done = ctypes.create_string_buffer(32)
    assert libc.syscall(collect, ring, ctypes.c_long(1), ctypes.c_long(1), done, None) == 1
for _ in range(3):
    appended()
assert libc.sync_file_range(data, 8192, 4096, 7) == 0
os.fsync(data)
"""


def test_where_libaio_appended_no_range_is_said_to_have(disk: Path) -> None:
    found = recorded(disk, program("import platform, struct" + AIO_APPENDS))
    names = found.writes.names["method"]
    told = [names[code] for code in found.writes.codes["method"].tolist()]
    sizes = found.writes.size_bytes.tolist()
    assert sorted(zip(told, sizes, strict=True)) == [
        ("fsync", 3 * 4096), ("fsync", 65536), ("sync_file_range", 0),
    ]  # fmt: skip
    assert (disk / "appended").stat().st_size == 65536 + 3 * 4096


# Each has its own descriptor, and none knows where the other's bytes are.
RACING = """
import os, sys
name, count = sys.argv[1], int(sys.argv[2])
for number in range(2):
    if not os.fork():
        data = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for turn in range(count):
            os.pwrite(data, bytes(1000 + number), 0)
            os.fsync(data)
        os._exit(0)
for number in range(2):
    os.wait()
"""


def test_appenders_that_race_have_each_byte_once(disk: Path) -> None:
    count = 60
    command = [sys.executable, "-c", RACING, str(disk / "file"), str(count)]
    found = recorded(disk, command)
    assert methods(found) == {"fsync": 2 * count}
    assert found.writes.size_bytes.sum() == count * (1000 + 1001) == (disk / "file").stat().st_size
    assert found.writes.durable_writes.sum() == 2 * count
    assert not found.quality.plain_writes


# Other threads map memory, or wait to, nearly all of the time.
CONTENDED = """
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
ANONYMOUS, POPULATED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 0x8000
data, done = opened('data'), False
os.ftruncate(data, 4096 * 200)
os.fsync(data)
memory = libc.mmap(None, 4096 * 200, mmap.PROT_READ, mmap.MAP_SHARED, data, 0)
def maps():
    while not done:
        libc.munmap(libc.mmap(None, 4 << 20, 3, ANONYMOUS | POPULATED, -1, 0), 4 << 20)
others = [threading.Thread(target=maps) for _ in range(3)]
for other in others:
    other.start()
for page in range(200):
    os.pwrite(data, bytes(4096), 4096 * page)
    assert libc.msync(memory + 4096 * page, 4096, 4) == 0
done = True
"""


def test_what_is_mapped_is_known_while_others_map(disk: Path) -> None:
    """With --device, which has to know it before the call."""
    found = recorded(disk, program(CONTENDED), "--device", device_of(disk))
    assert methods(found) == {"msync": 200, "fsync": 1}
    assert set(found.writes.size_bytes[of_method(found, "msync")].tolist()) == {4096}
    assert not found.quality.plain_writes


SQLITE = """
database = sqlite3.connect('database', isolation_level=None)
database.execute('PRAGMA journal_mode={mode}')
database.execute('PRAGMA synchronous={level}')
database.execute('CREATE TABLE numbers (number INTEGER)')
for number in range(30):
    database.execute('INSERT INTO numbers VALUES (?)', (number,))
database.close()
"""
COUNT = (
    "tracepoint:syscalls:sys_enter_fsync,tracepoint:syscalls:sys_enter_fdatasync"
    ' /comm == "sqlite-writer"/ { @calls[probe] = count(); }'
)


def counted_by_bpftrace(place: Path, command: list[str]) -> Counter[str]:
    """Runs a command; how often what is named sqlite-writer made which call."""
    script = place / "script.py"
    script.write_text(f"import subprocess\nsubprocess.run({command!r}, check=True)\n")
    done = subprocess.run(
        ["bpftrace", "-e", COUNT, "-c", f"{sys.executable} {script}"],
        cwd=place, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    counts = re.findall(r"@calls\[tracepoint:syscalls:sys_enter_(\w+)\]: (\d+)", done.stdout)
    return Counter({call: int(count) for call, count in counts})


@pytest.mark.skipif(not shutil.which("bpftrace"), reason="bpftrace is not installed")
@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_every_sync_of_sqlite_is_one_write(mode: str, disk: Path) -> None:
    """With DELETE, one of four is of the directory that holds the journal."""
    named = "open('/proc/self/comm', 'w').write('sqlite-writer')\n"
    command = program(named + SQLITE.format(mode=mode, level="FULL"))
    theirs = counted_by_bpftrace(
        disk, [*IOSTRATA, "record", "-o", str(disk / "recording"), "--", *command]
    )
    found = analyse(open_recording(disk / "recording"))
    assert theirs.total() >= 30
    assert methods(found) == theirs
    assert not found.left_out
    directory = np.count_nonzero(found.writes.inode == disk.stat().st_ino)
    assert directory >= 30 if mode == "DELETE" else directory <= 2


def test_a_process_is_found_by_its_name_whatever_its_threads_are_called(disk: Path) -> None:
    command = program(
        "import time\n"
        "def write():\n"
        "    open('/proc/thread-self/comm', 'w').write('another')\n"
        "    data = opened('data', os.O_DSYNC)\n"
        "    for number in range(20):\n"
        "        os.write(data, bytes(512))\n"
        "open('/proc/self/comm', 'w').write('the-process')\n"
        "thread = threading.Thread(target=write)\n"
        "thread.start()\n"
        "thread.join()\n"
    )
    found = recorded(disk, command, "--comm", "the-process")
    assert methods(found) == {"open_datasync": 20}
    (process,) = found.writes.names["process"]
    assert process.startswith("the-process (")
    done = iostrata("run", "--comm", "yet-another", "--", *command, cwd=disk)
    assert done.returncode == 5, done.stderr


CGROUPS = Path("/sys/fs/cgroup")


def hierarchy() -> Path:
    """Where groups of version 2 are."""
    for place in (CGROUPS / "unified", CGROUPS):
        if (place / "cgroup.controllers").exists():
            return place
    pytest.skip("there are no cgroups of version 2")


def test_a_filter_holds_for_each_call(disk: Path) -> None:
    """The process leaves the group after 10 of its 30 writes, and comes back for the last 5."""
    here = hierarchy() / f"iostrata-test-{os.getpid()}"
    groups = [here.with_name(f"{here.name}-{name}") for name in ("in", "out")]
    for group in groups:
        group.mkdir()
    try:
        found = recorded(
            disk,
            program(
                "data = opened('data', os.O_DSYNC)\n"
                f"inside, outside = {[str(group / 'cgroup.procs') for group in groups]!r}\n"
                "for number in range(30):\n"
                "    if number in (0, 25):\n"
                "        open(inside, 'w').write(str(os.getpid()))\n"
                "    elif number == 10:\n"
                "        open(outside, 'w').write(str(os.getpid()))\n"
                "    os.pwrite(data, bytes(512), number * 512)\n"
            ),
            "--cgroup",
            groups[0].name,
        )
    finally:
        for _ in range(50):
            if not any((group / "cgroup.procs").read_text() for group in groups):
                break
            time.sleep(0.1)
        for group in groups:
            group.rmdir()
    written = [offset // 512 for offset in found.writes.offset_bytes.tolist()]
    assert written == [*range(10), *range(25, 30)]


# Without a C library: 32-bit ones need not be installed.
PROGRAM_32 = r"""
static int call(int number, long one, long two, long three)
{
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(one), "c"(two), "d"(three)
                     : "memory");
    return result;
}
void _start(void)
{
    int file = call(5, (long)"data", 0102, 0644); /* open: O_RDWR | O_CREAT */
    for (int number = 0; number < 50; number++) {
        call(4, file, (long)"12345678", 8); /* write */
        call(number % 2 ? 118 : 148, file, 0, 0); /* fsync, fdatasync */
    }
    call(36, 0, 0, 0); /* sync */
    call(1, 0, 0, 0); /* exit */
}
"""


@pytest.fixture
def program_32(disk: Path) -> Path:
    found = disk / "program"
    (disk / "program.c").write_text(PROGRAM_32)
    compiled = subprocess.run(
        ["cc", "-m32", "-O1", "-static", "-nostdlib", "-fno-pie", "-no-pie", "-fno-stack-protector",
         "-o", str(found), "program.c"],
        cwd=disk, check=False, capture_output=True, text=True,
    )  # fmt: skip
    if compiled.returncode or subprocess.run([found], cwd=disk, check=False).returncode:
        pytest.skip("32-bit programs cannot be built or do not run here")
    return found


def test_a_32_bit_program_makes_the_same_calls(program_32: Path, disk: Path) -> None:
    found = recorded(disk, [str(program_32)])
    assert methods(found) == {"fsync": 25, "fdatasync": 25, "sync": 1}
    assert found.writes.size_bytes.tolist() == [8] * 50 + [0]
    assert found.writes.pieces.tolist() == [2] * 50 + [1]
    assert not any("32-bit" in gap.layer for gap in found.quality.not_observed)


def test_a_32_bit_program_that_begins_unexpectedly_is_told_of(program_32: Path, disk: Path) -> None:
    found = recorded(disk, ["sh", "-c", f"{program_32}; sleep 1; exec {program_32}"])
    told = [gap.reason for gap in found.quality.not_observed if "32-bit" in gap.layer]
    assert told == ["the first ones of 1 programs, until their probes were attached"]
    # The second one found them attached.
    assert 51 <= len(found.writes) <= 102


def test_a_32_bit_program_that_is_not_recorded_is_not_told_of(program_32: Path, disk: Path) -> None:
    def waits(for_what: str) -> str:
        return f"until [ -e {for_what} ]; do sleep 0.1; done"

    one = "dd if=/dev/zero of=data count=1 oflag=dsync"
    with subprocess.Popen(["sh", "-c", f"{waits('begun')}; {program_32}; touch ended"], cwd=disk):
        found = recorded(disk, ["sh", "-c", f"touch begun; {waits('ended')}; {one}"])
    assert len(found.writes) == 1
    assert not any("32-bit" in gap.layer for gap in found.quality.not_observed)


def test_a_64_bit_program_can_make_the_calls_of_32_bit_ones(disk: Path) -> None:
    """Nothing tells of them before one reaches a disk; from then on they are recorded."""
    made = disk / "int80"
    source = Path(__file__).parent / "programs" / "int80.c"
    compiled = ["cc", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o", str(made), str(source)]
    if platform.machine() != "x86_64" or subprocess.run([*compiled], check=False).returncode:
        pytest.skip("no program with int 0x80 can be built here")
    if subprocess.run([made, disk / "data", "0"], check=False).returncode == 3:
        pytest.skip("this kernel takes no calls of 32-bit programs")
    found = recorded(disk, [str(made), str(disk / "data"), "40"])
    assert found.writes.names["method"] == ("fsync",)
    assert 0 < len(found.writes) < 40
    assert set(found.writes.size_bytes.tolist()) == {8192}
    told = [gap.reason for gap in found.quality.not_observed if "32-bit" in gap.layer]
    assert told == ["the first ones of 1 programs, until their probes were attached"]


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_requests_that_a_kernel_thread_takes_are_the_program_s(disk: Path) -> None:
    command = ["fio", "--name=w", "--rw=randwrite", "--bs=8k", "--size=1m", "--ioengine=io_uring",
               "--sqthread_poll=1", "--direct=1", "--sync=dsync", "--filename=data"]  # fmt: skip
    found = recorded(disk, command)
    assert methods(found) == {"io_uring:open_datasync": 128}
    assert [name.partition(" (")[0] for name in found.writes.names["process"]] == ["fio"]
    told = [gap.reason for gap in found.quality.not_observed if gap.layer == "io_uring"]
    assert len(told) == 1
    assert "how long 128 requests waited" in told[0]
