# SPDX-License-Identifier: Apache-2.0
"""Every text that others chose, in every view: a terminal has nothing of it to obey."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from iostrata.cli import status_of
from iostrata.cli.options import By
from tests.analysis.test_sites import DISK, STRANGER, Stacked, world_of_waits
from tests.cli.terminal import on_a_terminal
from tests.hostile import MARKED, OBEYED, write_hostile
from tests.synthetic import O_DSYNC, Request, Writer

RECORDINGS: Final = Path(__file__).parent / "recordings"
READS: Final = Path(__file__).parent / "recordings_of_reads"
WRITER, HOG, VMM, GROUPS = 200, 500, 600, (4711, 4712, 4713)
# Of what may be shown on one terminal or another: what is escaped for all.
ESCAPED: Final = r"\x1b]\x9b\u202e\xff"


def crowded() -> Stacked:
    """A writer that waits for others' processes, in groups of any names, and where nobody sees."""
    world = world_of_waits(stacks=True)
    builder = world.builder.vmm(VMM, "guest").throttled(VMM, "guest").card("eth0", "virtio")
    builder.mount(DISK, "/mnt/data", "ext4", "/dev/sda", "rw,data=ordered")
    builder.image(DISK, 12, "qcow2").stack(9, "of", "a", "module")
    # The escapes here are systemd's: of letters, and of what is none.
    paths = ("/plain", r"/machine-lxc\x2d1\x2d\x1b]db.scope", r"/machine-qemu\x2d1\x2d\x9bvm.scope")
    writer = Writer(world, WRITER, DISK, 3_000_000)
    for number, (group, path) in enumerate(zip(GROUPS, paths, strict=True)):
        builder.cgroup(group, path)
        world.emit("task", 900 + number, 0, tgid=WRITER, subject_tid=WRITER, process=b"writer",
                   comm=b"thread", cgroup=GROUPS[1])  # fmt: skip
        writer.enter()
        writer.cpu(5_000)
        begin, tgid = writer.now, (HOG, HOG + 1, VMM)[number]
        writer.preempted(300_000)
        world.emit("sched_ran", writer.now, 0, begin_ns=begin, end_ns=writer.now, tgid=tgid,
                   ran_cpu=WRITER % 4, cgroup=group, process=b"hog")  # fmt: skip
        writer.data(Request())
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()
        named = {"inode": 12, "dev": DISK, "root_dev": DISK}
        world.emit("file_name", writer.now, WRITER, part=0, text=b"wal", **named)
        world.emit("file_name", writer.now, WRITER, part=1, component=1, last=1, **named)
    world.stack = 9
    writer.enter()
    writer.sleep(90_000, waker=STRANGER, row=None)
    writer.leave("fsync", flags=0, result=0, size=0)
    writer.finish()
    world.emit("cost", writer.now, 0, program=b"handle_write")
    world.emit("miss", writer.now, 0, program=b"handle_write", missed_count=3)
    return world


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made")
    crowded().builder.write(path / "local")
    machine = {"name": "local", "role": "local", "directory": "local"}
    told = {"format": "iostrata.recording/1", "created": "", "machines": [machine]}
    (path / "recording.json").write_text(json.dumps(told))
    return path


SOURCES: Final = {
    "made": None,
    **{name: RECORDINGS / name for name in ("kvm_nfs", "ceph_osds")},
    "nfs_server": READS / "nfs_server",
}


@pytest.fixture(params=[*SOURCES, "of no known kind"])
def hostile(request: pytest.FixtureRequest, made: Path, tmp_path: Path) -> Path:
    source = SOURCES.get(request.param) or made
    return write_hostile(source, tmp_path / "hostile", request.param not in SOURCES)


def strings(told: Any) -> Iterator[str]:
    if isinstance(told, str):
        yield told
    for one in told.values() if isinstance(told, dict) else told if isinstance(told, list) else ():
        yield from strings(one)


def obeyed(text: str) -> list[str]:
    """Its lines with what a terminal obeys, or with no letter."""
    return sorted({line for line in text.split("\n") if not line.isprintable()})


def views(op: str) -> list[str]:
    """Every command that shows something of a recording, HERE, perhaps in a FILE."""
    of_one = "" if op == "sync" else f" --op {op}"
    return [
        f"{words}{of_one}"
        for words in (
            "replay HERE --no-cache --who --tail --histogram --over-time",
            "replay HERE --no-cache --who --json -",
            "timeline HERE --no-cache",
            "timeline HERE --no-cache --json -",
            "compare HERE HERE",
            "compare HERE HERE --json -",
            "html HERE --no-cache --by process -o FILE",
            "export HERE --no-cache --csv FILE",
            "export HERE --no-cache --parquet FILE",
            "export HERE --no-cache --spans FILE",
            "export HERE --no-cache --perfetto FILE",
        )
    ]


OF_NO_OPERATION: Final = (
    "estimate HERE",
    "estimate HERE --json -",
    "dump HERE",
    "export HERE --redact FILE",
    "join a:local=HERE -o FILE",
    "replay HERE --op all",
)


def wrong_in(words: str, here: Path, file: Path, said: tuple[str, str]) -> list[str]:
    """What a terminal would obey of what it printed, and wrote to a file."""
    found = obeyed("".join(said))
    if "--json" in words and said[0]:
        found += [line for text in strings(json.loads(said[0])) for line in obeyed(text)]
    if file.is_file():
        data = file.read_bytes()
        found += [words] if MARKED in data else []
        found += obeyed(data.decode()) if words.startswith("html") or "--csv" in words else []
        file.unlink()
    return found


def check(views: Iterable[str], here: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, wrong = 0, {}
    for words in views:
        command = [{"HERE": str(here), "FILE": str(file)}.get(one, one) for one in words.split()]
        status = status_of(command)
        said = capsys.readouterr()
        assert status in (0, 2, 3, 5, 7), (words, said.err)
        shown += ESCAPED in said.out
        if found := wrong_in(words, here, file, said):
            wrong[words] = found[:9]
    assert not wrong, "\n".join(map(repr, wrong.items()))
    assert shown


def test_no_view_shows_what_a_terminal_obeys(
    hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    every = [*views("sync"), *views("read"), *OF_NO_OPERATION]
    check(every, hostile, tmp_path / "file", capsys)


def test_no_group_is_shown_as_what_a_terminal_obeys(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = write_hostile(made, tmp_path / "hostile")
    commands = ("replay HERE --csv -", "timeline HERE")
    every = [f"{words} --by {by}" for words in commands for by in By]
    check(every, found, tmp_path / "file", capsys)


def test_one_process_has_one_name(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the writer and as who is waited for."""
    found = write_hostile(made, tmp_path / "hostile")
    assert status_of(["replay", str(found), "--who", "--by", "process", "--json", "-"]) in (0, 7)
    told = list(strings(json.loads(capsys.readouterr().out)))
    assert rf"{ESCAPED}writer" in told
    assert rf"{ESCAPED}writer (200)" in told


def test_the_live_table_shows_nothing_that_a_terminal_obeys(made: Path, tmp_path: Path) -> None:
    found = write_hostile(made, tmp_path / "hostile")
    with on_a_terminal("-m", "iostrata", "top", "--replay", str(found), "--speed", "9") as terminal:
        terminal.until("the end")
        terminal.press("m")
        terminal.until("method ")
        terminal.press("q")
        assert terminal.end() == 0
    assert b"\x1b]" not in terminal.output
    assert OBEYED.encode(errors="replace") not in terminal.output
