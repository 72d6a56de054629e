# SPDX-License-Identifier: Apache-2.0
"""A recording as the recorder writes it with --compress, made of one that is without."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from iostrata.trace import frames
from iostrata.trace.frames import frame_of
from tests.trace.growing import packets

Zstd = Any


def zstd() -> Zstd:
    return frames._zstd()


def frames_of(stream: Path) -> list[bytes]:
    return [frame_of(packet) for _, packet in packets(stream)]


def framed(directory: Path) -> Path:
    """Each CPU's packets become frames, in the same directory and all below."""
    for stream in sorted(directory.rglob("cpu_*")):
        made = stream.with_name(f"{stream.name}.zst")
        made.write_bytes(b"".join(frames_of(stream)))
        stream.unlink()
    return directory


def framed_copy(source: Path, target: Path) -> Path:
    return framed(Path(shutil.copytree(source, target)))
