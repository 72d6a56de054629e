# SPDX-License-Identifier: Apache-2.0
"""The recorder as a file: what its wheel promises of it."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

import pytest

from iostrata.errors import RecorderError
from iostrata.record import find_recorder, recorder

PT_LOAD: Final = 1
PT_INTERP: Final = 3
PT_GNU_STACK: Final = 0x6474E551
PT_GNU_RELRO: Final = 0x6474E552
ET_DYN: Final = 3
EXECUTABLE: Final = 1
WRITABLE: Final = 2


def headers(binary: bytes) -> list[tuple[int, int]]:
    """Type and flags of each program header of a 64-bit little-endian file."""
    (begin,) = struct.unpack_from("<Q", binary, 32)
    size, count = struct.unpack_from("<HH", binary, 54)
    return [struct.unpack_from("<II", binary, begin + number * size) for number in range(count)]


def test_it_needs_no_library_and_is_hardened() -> None:
    try:
        binary = find_recorder().read_bytes()
    except RecorderError as error:
        pytest.skip(str(error))
    found = headers(binary)
    assert binary[:6] == b"\x7fELF\x02\x01"
    assert PT_INTERP not in dict(found)
    assert struct.unpack_from("<H", binary, 16) == (ET_DYN,)
    assert PT_GNU_RELRO in dict(found)
    assert not dict(found)[PT_GNU_STACK] & EXECUTABLE
    assert not any(
        kind == PT_LOAD and flags & EXECUTABLE and flags & WRITABLE for kind, flags in found
    )


def test_one_for_another_type_of_cpu_is_built_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(recorder, "BUILT", tmp_path / "iostrata-record")
    with pytest.raises(RecorderError, match="of another type: aarch64") as error:
        find_recorder("aarch64")
    assert error.value.hint.startswith("make native-arm64 ")
    built = tmp_path / "arm64" / "iostrata-record"
    built.parent.mkdir()
    built.touch(os.X_OK << 6)
    assert find_recorder("aarch64") == built
    # What a machine says that it is leads to no other file.
    with pytest.raises(RecorderError, match="of another type: arm64") as error:
        find_recorder("arm64")
    assert error.value.hint.startswith("build iostrata-record there ")
