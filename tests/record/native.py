# SPDX-License-Identifier: Apache-2.0
"""Parts of the recorder as programs of this machine: its sources in, what a program says out."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

BPF = Path(__file__).parents[2] / "bpf"
PROGRAMS = Path(__file__).parent / "programs"
FLAGS = (
    "-O2",
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-format-truncation",
)


@dataclass(frozen=True)
class Program:
    path: Path

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        words = [str(self.path), *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def compiled(directory: Path, name: str, *parts: str) -> Program:
    """programs/NAME.c with those parts of bpf/record; the BPF programs must have been built."""
    if not (BPF / "build" / "iostrata.skel.h").exists():
        pytest.skip("the recorder is not built: make -C bpf")
    path = directory / name
    sources = [PROGRAMS / f"{name}.c", *(BPF / "record" / f"{part}.c" for part in parts)]
    places = [f"-I{place}" for place in (BPF, BPF / "build", BPF / "record")]
    words = ["cc", *FLAGS, *places, "-o", path, *sources, "-lz", "-lzstd", "-lpthread"]
    subprocess.run([str(word) for word in words], check=True)
    return Program(path)
