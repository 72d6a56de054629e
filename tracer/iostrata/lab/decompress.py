# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a kernel's image in, the kernel as it is in memory out, where that boots sooner."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Final

XZ: Final = b"\xfd7zXZ\0"
ELF: Final = b"\x7fELF"


def decompressed(image: Path) -> Path:
    """Beside the image, made once; the image itself if it is not compressed by XZ.

    An emulated processor needs ten seconds for XZ, and little for what newer kernels have.
    """
    target = image.with_name(f"{image.name}.elf")
    if target.exists():
        return target
    data = image.read_bytes()
    try:
        kernel = lzma.LZMADecompressor().decompress(data[data.index(XZ) :])
    except (ValueError, lzma.LZMAError):
        return image
    if not kernel.startswith(ELF):
        return image
    partial = image.with_name(f".{target.name}")
    partial.write_bytes(kernel)
    partial.rename(target)
    return target
