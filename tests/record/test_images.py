# SPDX-License-Identifier: Apache-2.0
"""Which files of a process are images that keep what is written elsewhere in them."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from iostrata.trace.fact_files import read_facts
from iostrata.trace.facts import Facts
from tests.record.native import Program, compiled

FILES = {
    "qcow2": b"QFI\xfb\0\0\0\3",
    "qed": b"QED\0",
    "vmdk": b"KDMV\1",
    "vhdx": b"vhdxfileQ",
    "vpc": b"conectix",
    "parallels": b"WithouFreSpacExt",
    "vdi": b"<<< an image >>>".ljust(64) + b"\x7f\x10\xda\xbe",
    "raw": bytes(4096),
    "boot": b"\xeb\x63\x90",
    "nearly": b"QFI",
    "behind": bytes(512) + b"QFI\xfb",
    "empty": b"",
}
FORMATS = ("qcow2", "qed", "vmdk", "vhdx", "vdi", "vpc", "parallels")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return compiled(tmp_path_factory.mktemp("images"), "images", "images", "qcow2")


@contextmanager
def holder(*descriptors: int) -> Iterator[int]:
    """A process that has them open, and does not use them."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=descriptors) as process:
        yield process.pid


def facts_of(images: Program, place: Path, *descriptors: int) -> Facts:
    """As a recording has them."""
    place.mkdir(exist_ok=True)
    with holder(*descriptors) as pid:
        done = images.run(pid, place / "backed")
    assert not done.returncode
    (place / "images").write_text(done.stdout)
    (place / "image_maps").write_text(done.stderr)
    facts, defects = read_facts(place)
    assert not defects
    return facts


def told(images: Program, place: Path, *descriptors: int) -> dict[tuple[int, int], str]:
    return dict(facts_of(images, place, *descriptors).images)


def key(path: Path) -> tuple[int, int]:
    found = path.stat()
    return os.major(found.st_dev) << 20 | os.minor(found.st_dev), found.st_ino


@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_RDWR | os.O_DIRECT])
def test_formats_by_the_first_bytes(images: Program, flags: int, tmp_path: Path) -> None:
    with ExitStack() as closed:
        for name, data in FILES.items():
            (tmp_path / name).write_bytes(data)
        opened = [os.open(tmp_path / name, flags) for name in FILES]
        for descriptor in opened:
            closed.callback(os.close, descriptor)
        found = told(images, tmp_path / "facts", *opened)
    assert found == {key(tmp_path / name): name for name in FORMATS}


def test_a_file_that_has_no_name_any_more(images: Program, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(FILES["qcow2"])
    wanted = key(image)
    with image.open("rb") as file:
        image.unlink()
        assert told(images, tmp_path / "facts", file.fileno()) == {wanted: "qcow2"}


def test_what_is_no_file_is_not_read(images: Program, tmp_path: Path) -> None:
    """A pipe would give what it holds away to whoever reads it."""
    reads, writes = os.pipe()
    os.write(writes, FILES["qcow2"])
    with ExitStack() as closed:
        for descriptor in (reads, writes):
            closed.callback(os.close, descriptor)
        assert told(images, tmp_path / "facts", reads) == {}
        assert os.read(reads, 100) == FILES["qcow2"]


CLUSTER = 1 << 16
COPIED, COMPRESSED, READS_ZERO = 1 << 63, 1 << 62, 1
L1, REFCOUNTS, BLOCK = 3, 1, 2
"""Which clusters of the file these tables are in."""


def qcow2(
    place: Path, clusters: dict[int, int], *, version: int = 3, features: int = 0, bits: int = 16,
    backing: int = 0,
) -> None:  # fmt: skip
    """An image as QEMU's docs/interop/qcow2.rst describes it: the entry of each guest's cluster."""
    covered = CLUSTER // 8
    tables = sorted({number // covered for number in clusters})
    first = [10 + n for n in range(len(tables))]
    header = struct.pack(
        ">4sIQIIQIIQQIIQQ", b"QFI\xfb", version, backing, 0, bits, covered * CLUSTER * 3, 0, 3,
        L1 * CLUSTER, REFCOUNTS * CLUSTER, 1, 0, 0, features,
    )  # fmt: skip
    l1 = [0, 0, 0]
    with place.open("wb") as file:
        file.write(header)
        for table, at in zip(tables, first, strict=True):
            l1[table] = at * CLUSTER | COPIED
            entries = [clusters.get(table * covered + n, 0) for n in range(covered)]
            file.seek(at * CLUSTER)
            file.write(struct.pack(f">{covered}Q", *entries))
        file.seek(L1 * CLUSTER)
        file.write(struct.pack(">3Q", *l1))
        file.seek(REFCOUNTS * CLUSTER)
        file.write(struct.pack(">2Q", BLOCK * CLUSTER, 0))


def at(cluster: int, flags: int = COPIED) -> int:
    return cluster * CLUSTER | flags


def extents(images: Program, place: Path, image: Path) -> list[tuple[int, int, int]]:
    """From which cluster of the guest (-1: the image's own), how many, at which of the file."""
    with image.open("rb") as file:
        found = facts_of(images, place, file.fileno()).image_maps
    if not found:
        return []
    (told,) = found.values()
    assert len({extent.time_ns for extent in told}) == 1
    return [
        (one.offset_bytes // CLUSTER, one.size_bytes // CLUSTER, one.place_bytes // CLUSTER)
        for one in told
    ]


def test_where_an_image_has_what(images: Program, tmp_path: Path) -> None:
    """Ranges, as long as both sides go on; what is compressed is written elsewhere next time."""
    clusters = {
        0: at(5), 1: at(6), 2: at(9), 3: at(8), 4: at(20, 0), 5: at(21, COPIED | READS_ZERO),
        7: at(22), 9: READS_ZERO, 11: at(30, COMPRESSED), 2 * CLUSTER // 8: at(40),
    }  # fmt: skip
    qcow2(tmp_path / "image", clusters)
    found = extents(images, tmp_path / "facts", tmp_path / "image")
    assert sorted(found) == sorted([
        (0, 2, 5), (2, 1, 9), (3, 1, 8), (4, 2, 20), (7, 1, 22), (2 * CLUSTER // 8, 1, 40),
        (-1, 1, 0), (-1, 1, 10), (-1, 1, 11), (-1, 1, L1), (-1, 1, REFCOUNTS),
        (-1, 1, BLOCK),
    ])  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 4}, {"features": 1 << 2}, {"features": 1 << 4}, {"bits": 9}, {"bits": 22},
        {"bits": 1 << 31},
    ],
)  # fmt: skip
def test_what_is_kept_otherwise_has_no_map(
    images: Program, wrong: dict[str, int], tmp_path: Path
) -> None:
    """Another file has the data, clusters have parts, or it is none that was ever made."""
    qcow2(tmp_path / "image", {0: at(5)}, **wrong)
    assert extents(images, tmp_path / "facts", tmp_path / "image") == []


def test_an_image_over_another(images: Program, tmp_path: Path) -> None:
    """The header has where the other's name is."""
    with ExitStack() as closed:
        opened = []
        for name, backing in (("alone", 0), ("over", 1024)):
            qcow2(tmp_path / name, {0: at(5)}, backing=backing)
            opened.append(os.open(tmp_path / name, os.O_RDONLY))
            closed.callback(os.close, opened[-1])
        facts = facts_of(images, tmp_path / "facts", *opened)
    assert facts.backed == {key(tmp_path / "over")}
    assert facts.images.keys() == {key(tmp_path / name) for name in ("alone", "over")}


def test_an_image_that_is_cut_short(images: Program, tmp_path: Path) -> None:
    qcow2(tmp_path / "image", {0: at(5)})
    for size in (CLUSTER * 10, CLUSTER * 3 + 4, CLUSTER + 4, 40):
        os.truncate(tmp_path / "image", size)
        assert (0, 1, 5) not in extents(images, tmp_path / "facts", tmp_path / "image")
