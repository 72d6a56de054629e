# SPDX-License-Identifier: Apache-2.0
"""Of recordings with something wrong in them C and NumPy tell the same, to the byte."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Final

import pytest

from iostrata import native
from iostrata.cli import status_of
from tests.fuzz.mutate import Files, changed, files_of, slept, write
from tests.fuzz.sources import RECORDINGS

pytestmark = pytest.mark.skipif(
    native.LIBRARY is None, reason="libnative.so was not built here: make native"
)
ONCE_APART: Final = (85, 106)
KEPT: Final = [files_of(RECORDINGS / name) for name in ("asynchronous", "xfs_log", "ext4_journal")]


def told(recording: Path) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = status_of(["replay", str(recording), "--no-cache", "--who", "--json", "-"])
    return status, out.getvalue(), err.getvalue()


def damaged(random: Random) -> Files:
    """In a file or two; mostly what is told of sleeps, which all else is followed by."""
    files = dict(random.choice(KEPT))
    streams = [name for name in sorted(files) if "/cpu_" in name]
    for name in random.choices(streams, k=2):
        files[name] = random.choice((slept, slept, _any))(files[name], random)
    return files


def _any(data: bytes, random: Random) -> bytes:
    return changed("cpu_0", data, random)


@pytest.mark.parametrize("seed", [*ONCE_APART, *range(20)])
def test_c_and_numpy_tell_the_same(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = write(damaged(Random(seed)), tmp_path / "recording")
    by_c = told(recording)
    monkeypatch.setattr(native, "LIBRARY", None)
    assert told(recording) == by_c
