# SPDX-License-Identifier: Apache-2.0
"""What a recording consists of, and how it comes here: each part alone, many in a second.

One input in; ``taken`` or ``refused`` out. Errors: Unlawful, and whatever else is a bug.
"""

from __future__ import annotations

import io
import stat
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

from iostrata.cli import status_of
from iostrata.errors import IostrataError
from iostrata.record.diagnosis import read_probes, verdicts
from iostrata.record.receive import BEGIN, receive
from iostrata.record.status import Progress, Status
from iostrata.recording import open_recording
from iostrata.script.lines import read_lines
from iostrata.trace.fact_files import read_facts
from iostrata.trace.files import is_trace_file
from iostrata.trace.layout import EVENT_BYTES
from iostrata.trace.metadata import parse
from iostrata.trace.stream import Stream
from iostrata.trace.stream_files import read_stream
from tests.fuzz.frames import broken, framed
from tests.fuzz.lawful import CONTROL, Unlawful
from tests.fuzz.mutate import NUMBERS, TEXTS, Files, changed, write
from tests.script.printed import printed
from tests.script.test_truth import writes

Found = Sequence[Files]
STATUS: Final = b"""\
probe block_rq_issue\tx\tblock\tok\t
probe syscall_enter\twrite\tsyscall\tEPERM\tnot permitted
ready 1234
progress 100 0 1.5
clock 123456789
exit 3
signal 9
failed --comm x makes no sense; see --help
done 125
"""
NAMES: Final = (
    b"cpu_0", b"cpu_", b"cpu_99999", b"metadata", b"facts", b"facts/", b"facts/x", b"facts/../x",
    b"../x", b"/x", b"recorder\0", b"", b".", b"..", b"a" * 200, b"facts/" + b"a" * 32, b"end",
)  # fmt: skip
# What is changed line by line, as facts are.
LINES: Final = "/facts/"
PRINTED: Final = printed(writes()[0]).encode()


def metadata(found: Found, random: Random, place: Path) -> str:
    name, data = _one(found, random, lambda name: name.endswith("/metadata"))
    read = parse(changed(name, data, random).decode(errors="surrogateescape"))
    if any(dtype.itemsize != EVENT_BYTES for dtype in read.dtypes.values()):
        raise Unlawful("an event that fills no slot")
    return "taken"


def fact(found: Found, random: Random, place: Path) -> str:
    name, data = _one(found, random, lambda name: "/facts/" in name)
    write({name.rpartition("/")[2]: changed(name, data, random)}, place)
    _, defects = read_facts(place)
    return "refused" if defects else "taken"


def stream(found: Found, random: Random, place: Path) -> str:
    files = random.choice(found)
    name, data = _one([files], random, lambda name: "/cpu_" in name or name.endswith("/recorder"))
    uuid = _uuid(files[f"{name.rpartition('/')[0]}/metadata"])
    last = name.rpartition("/")[2]
    return _lawful(read_stream(write({last: changed(name, data, random)}, place) / last, uuid))


def _lawful(read: Stream) -> str:
    for slots in read.slots.values():
        if len(slots) and not 0 <= slots.min() <= slots.max() < read.slot_count:
            raise Unlawful("an event beside the file")
    if any(not -1 <= gap.begin_ns <= gap.end_ns for gap in read.gaps):
        raise Unlawful("a loss that ends before it begins")
    return "refused" if read.damage else "taken"


def frame(found: Found, random: Random, place: Path) -> str:
    """Whole ones hold what the file without them does, whatever that is; then others."""
    files = random.choice(found)
    name, data = _one([files], random, lambda name: "/cpu_" in name)
    uuid = _uuid(files[f"{name.rpartition('/')[0]}/metadata"])
    data = changed(name, data, random)
    data = data[: len(data) // EVENT_BYTES * EVENT_BYTES]
    frames = framed(data, random)
    write(
        {"cpu_0": data, "cpu_0.zst": b"".join(frames), "cpu_1.zst": broken(frames, random)}, place
    )
    plain, whole = (read_stream(place / name, uuid) for name in ("cpu_0", "cpu_0.zst"))
    if _read(plain) != _read(whole):
        raise Unlawful("frames are read as something else than what they hold")
    return _lawful(read_stream(place / "cpu_1.zst", uuid))


def _read(stream: Stream) -> object:
    slots = {number: slots.tolist() for number, slots in stream.slots.items()}
    data = bytes(stream.mapped or b"")
    return slots, data, stream.gaps, [line.partition(": ")[2] for line in stream.damage]


def sent(found: Found, random: Random, place: Path) -> str:
    """By another machine, instead of its trace."""
    files = random.choice(found)
    within = f"{random.choice(_machines(files))}/"
    parts = [
        (name.removeprefix(within).encode(), data)
        for name, data in files.items()
        if name.startswith(within)
    ]
    lines = [b"%d %b\n%b" % (len(data), name, data) for name, data in parts]
    one = random.randrange(len(parts))
    name, data = parts[one]
    size, strange = random.choice(NUMBERS), random.choice(TEXTS)
    lines[one] = random.choice((
        b"%d %b\n%b" % (size, name, data),
        b"%d %b\n%b" % (len(data), random.choice(NAMES), data),
        b"%d %b\n%b" % (len(strange), name, strange),
        strange,
    ))  # fmt: skip
    data = b"%b\n%bend\n" % (BEGIN.encode(), b"".join(lines))
    if random.random() < 0.3:
        data = changed(LINES, data, random)
    try:
        receive(io.BytesIO(data), place / "trace")
    finally:
        for path in (place / "trace").rglob("*"):
            within = str(path.relative_to(place / "trace"))
            regular = stat.S_ISREG(path.lstat().st_mode)
            if within != "facts" and not (is_trace_file(within) and regular):
                raise Unlawful(f"{within} was written")
    return "taken"


class _Listener:
    def ready(self) -> None: ...

    def progress(self, progress: Progress) -> None: ...


def status(found: Found, random: Random, place: Path) -> str:
    """What a recorder says, and what is said to who waits for it."""
    said = Status()
    for line in changed(LINES, STATUS, random).decode(errors="replace").split("\n"):
        said.take(line, _Listener())
    verdicts(read_probes(said.probes))
    if said.done is not None and not 0 <= said.done <= 255:
        raise Unlawful(f"a status of {said.done}")
    if error := said.error(said.done or 0):
        raise error
    return "taken"


def document(found: Found, random: Random, place: Path) -> str:
    """recording.json, with the machines that it names."""
    files = random.choice(found)
    for name in files:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
    write({"recording.json": changed("recording.json", files["recording.json"], random)}, place)
    for machine in open_recording(place).machines:
        inside = (place / machine.directory).resolve()
        if not inside.is_relative_to(place.resolve()):
            raise Unlawful(f"a machine in {inside}")
    return "taken"


def script(found: Found, random: Random, place: Path) -> str:
    """What bpftrace prints."""
    data = changed(LINES, PRINTED, random)
    return "refused" if read_lines(write({"out": data}, place) / "out").bad else "taken"


def joined(found: Found, random: Random, place: Path) -> str:
    """Two machines of one recording, recorded by hand."""
    files = random.choice([files for files in found if len(_machines(files)) > 1])
    name = random.choice(sorted(files))
    write(files | {name: changed(name, files[name], random)}, place / "all")
    first, second = random.sample(_machines(files), 2)
    words = ["join", f"one:guest={place / 'all' / first}", f"two:host={place / 'all' / second}"]
    words += ["-o", str(place / "joined")]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        ended = status_of(words)
    if "this is a bug" in err.getvalue() or CONTROL.search(err.getvalue()):
        raise Unlawful(err.getvalue())
    return "refused" if ended else "taken"


# How many of a hundred inputs are of it: what is quick is tried often.
PARTS: Final[dict[str, tuple[Callable[[Found, Random, Path], str], int]]] = {
    "status": (status, 20),
    "sent": (sent, 18),
    "fact": (fact, 18),
    "document": (document, 15),
    "stream": (stream, 13),
    "metadata": (metadata, 8),
    "frame": (frame, 5),
    "script": (script, 4),
    "joined": (joined, 1),
}


def tried(part: str, found: Found, random: Random, place: Path) -> str:
    try:
        return PARTS[part][0](found, random, place)
    except IostrataError as error:
        # What is read deeper down gets its advice where it is told.
        if not str(error).strip():
            raise Unlawful("refused without a word") from error
        return "refused"


@cache
def _uuid(metadata: bytes) -> bytes:
    return parse(metadata.decode(errors="surrogateescape")).uuid


def _machines(files: Files) -> list[str]:
    return sorted({name.partition("/")[0] for name in files if "/" in name})


def _one(found: Found, random: Random, wanted: Callable[[str], bool]) -> tuple[str, bytes]:
    files = random.choice(found)
    name = random.choice([name for name in sorted(files) if wanted(name)])
    return name, files[name]
