# SPDX-License-Identifier: Apache-2.0
"""Which files of a process are images that keep what is written elsewhere in them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from iostrata.trace.fact_files import read_facts
from tests.record.native import Program, compiled

FILES = {
    "qcow2": b"QFI\xfb\0\0\0\3",
    "qed": b"QED\0",
    "vmdk": b"KDMV\1",
    "vhdx": b"vhdxfileQ",
    "vdi": b"<<< an image >>>".ljust(64) + b"\x7f\x10\xda\xbe",
    "raw": bytes(4096),
    "boot": b"\xeb\x63\x90",
    "nearly": b"QFI",
    "behind": bytes(512) + b"QFI\xfb",
    "empty": b"",
}
FORMATS = ("qcow2", "qed", "vmdk", "vhdx", "vdi")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return compiled(tmp_path_factory.mktemp("images"), "images", "images")


@contextmanager
def holder(*descriptors: int) -> Iterator[int]:
    """A process that has them open, and does not use them."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=descriptors) as process:
        yield process.pid


def told(images: Program, place: Path, *descriptors: int) -> dict[tuple[int, int], str]:
    """As the facts of a recording have it."""
    with holder(*descriptors) as pid:
        done = images.run(pid)
    assert not done.returncode
    place.mkdir(exist_ok=True)
    (place / "images").write_text(done.stdout)
    facts, defects = read_facts(place)
    assert not defects
    return dict(facts.images)


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
