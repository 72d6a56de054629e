# SPDX-License-Identifier: Apache-2.0
"""A kernel that does not run in, which of the programs' relocations it has no answer to out.

libbpf resolves them, as the recorder has it do when it loads the programs: bpftool asks it which
types of the kernel the object needs, and tells what it finds of each.
"""

from __future__ import annotations

import lzma
import re
import struct
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from iostrata.lab.kernels import Kernel
from iostrata.lab.tools import run_tool

# linux/btf.h: the magic number, version 1, no flags; the bytes of a header, and its numbers behind.
BTF: Final = struct.pack("<HBBI", 0xEB9F, 1, 0, 24)
HEADER: Final = struct.Struct("<8x4I")
# Those whose types programs look into; others are the kernel's own.
MODULES: Final = (
    *("9p", "9pnet"),
    *("btrfs", "ext4", "fuse", "iscsi_target_mod", "iscsi_tcp", "jbd2", "libceph", "libiscsi"),
    *("loop", "nbd", "nfs", "nfsd", "nvme-core", "nvme-tcp", "nvmet", "nvmet-tcp", "overlay"),
    *("rbd", "scsi_mod", "sunrpc", "target_core_file", "target_core_iblock", "target_core_mod"),
    *("virtio_scsi", "xfs"),
)
TOLD: Final = re.compile(r"prog '(.*)': relo #(\d+): (.*)")
ASKED: Final = re.compile(r"<(\w+)> \[\d+\] (.*?)(?: \([\d:]+(?: @ offset [\d.]+)?\)| = \d+)?")


@dataclass(frozen=True)
class Asked:
    """A relocation: by the programs of ``section``, of which ``kind`` (libbpf's), what of."""

    section: str
    kind: str
    what: str

    @property
    def is_question(self) -> bool:
        """Whether it has an answer in any case."""
        return self.kind.endswith("_exists")

    @property
    def type_name(self) -> str:
        """Of the kernel: a flavour's is its own up to ___."""
        return self.what.partition(".")[0].partition("::")[0].partition("___")[0]


def lacks(kernel: Kernel, built: Path, place: Path) -> Iterator[str]:
    """What neither the kernel nor one of its modules has, a line each.

    What, whether the same programs ask first if the kernel has this or that of its type, and which
    programs. ``built``: the object. ``place``: for what is made on the way.
    """
    own = kernel_types(kernel.image.read_bytes())
    asked: dict[tuple[str, int], Asked] = {}
    missing: set[tuple[str, int]] | None = None
    for number, types in enumerate((own, *_with_modules(own, kernel, place))):
        file = place / f"{number}.btf"
        file.write_bytes(types)
        asked, without = _resolved(file, built)
        missing = without if missing is None else missing & without
    questions = {(each.section, each.type_name) for each in asked.values() if each.is_question}
    lacking: dict[tuple[str, str], set[str]] = {}
    for each in (asked[where] for where in missing or ()):
        first = "asked" if (each.section, each.type_name) in questions else "-"
        if not each.is_question:
            lacking.setdefault((each.what, first), set()).add(each.section)
    for (what, first), sections in sorted(lacking.items()):
        yield f"{what}\t{first}\t{' '.join(sorted(sections))}"


def kernel_types(image: bytes) -> bytes:
    """The BTF in a kernel's image: what looks like one, and is the largest."""
    found = [at.start() for at in re.finditer(re.escape(BTF), image)]
    return max((_types_at(image, at) for at in found), key=len)


def _types_at(image: bytes, begin: int) -> bytes:
    first, types_bytes, second, names_bytes = HEADER.unpack_from(image, begin)
    end = begin + HEADER.size + types_bytes + names_bytes
    return image[begin:end] if (first, second) == (0, types_bytes) else b""


def _with_modules(own: bytes, kernel: Kernel, place: Path) -> Iterator[bytes]:
    """A module's types go on counting where the kernel's end, and so do its names."""
    directory = kernel.modules / kernel.release
    built_in = {Path(line).stem for line in (directory / "modules.builtin").read_text().split()}
    for name in MODULES:
        if name in built_in:
            continue
        (file,) = directory.rglob(f"{name}.ko*")
        module, types = place / f"{name}.ko", place / f"{name}.types"
        data = file.read_bytes()
        module.write_bytes(lzma.decompress(data) if file.suffix == ".xz" else data)
        run_tool("llvm-objcopy", f"--dump-section=.BTF={types}", str(module), what=name)
        yield _joined((own, types.read_bytes()))


def _joined(parts: Iterable[bytes]) -> bytes:
    types, names = b"", b""
    for part in parts:
        _, types_bytes, _, names_bytes = HEADER.unpack_from(part)
        types += part[HEADER.size :][:types_bytes]
        names += part[HEADER.size + types_bytes :][:names_bytes]
    return BTF + struct.pack("<4I", 0, len(types), len(types), len(names)) + types + names


def _resolved(
    types: Path, built: Path
) -> tuple[dict[tuple[str, int], Asked], set[tuple[str, int]]]:
    """The relocations, and which of them found nothing; by section and number."""
    words = ("bpftool", "-d", "gen", "min_core_btf", str(types), f"{types}.needed", str(built))
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    asked: dict[tuple[str, int], Asked] = {}
    without: set[tuple[str, int]] = set()
    for line in (done.stdout + done.stderr).splitlines():
        if not (told := TOLD.search(line)):
            continue
        where = told[1], int(told[2])
        if what := ASKED.fullmatch(told[3]):
            asked.setdefault(where, Asked(told[1], what[1], what[2]))
        elif told[3] == "no matching targets found":
            without.add(where)
    assert asked, done.stderr
    return asked, without
