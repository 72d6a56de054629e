# SPDX-License-Identifier: Apache-2.0
"""System calls as C tells what they write and make durable, against what NumPy finds of them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata import native
from iostrata.stitch import calls
from iostrata.stitch.calls import operations_of_calls
from iostrata.trace import layout
from iostrata.trace.read import read_trace
from tests.test_native import twin
from tests.trace.random_events import random_events, write

COMMON: Final = (
    layout.CALL_WRITE, layout.CALL_PWRITEV2, layout.CALL_FSYNC, layout.CALL_FDATASYNC,
    layout.CALL_SYNC, layout.CALL_SYNCFS, layout.CALL_SENDFILE, layout.CALL_SPLICE,
)  # fmt: skip
OTHERS: Final = (0, layout.CALL_READ, layout.CALL_FAULT, 200, 255)
RARE: Final = (
    layout.CALL_MSYNC, layout.CALL_SYNC_FILE_RANGE, layout.CALL_COPY_FILE_RANGE,
    layout.CALL_FALLOCATE, layout.CALL_FTRUNCATE, layout.CALL_CLONE,
)  # fmt: skip
FLAGS: Final = (
    0, calls.O_DSYNC, calls.O_SYNC_ONLY, calls.O_SYNC_ONLY | calls.O_DSYNC, calls.O_APPEND,
    calls.OPEN_OF_SYNC_INODE, calls.OPEN_OF_SYNC_INODE | calls.O_DSYNC,
)  # fmt: skip
OWN_FLAGS: Final = (0, calls.RWF_DSYNC, calls.RWF_SYNC, calls.RWF_APPEND, 0xFFFF)
RESULTS: Final = (-(1 << 31), -4, 0, 1, 8192, (1 << 31) - 1)

pytestmark = pytest.mark.skipif(
    native.LIBRARY is None, reason="libnative.so was not built here: make native"
)


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(0, 200),
    numbers=st.sampled_from([COMMON, (*COMMON, *OTHERS), (*COMMON, *RARE), OTHERS]),
    jobs=st.integers(1, 3),
    reused=st.booleans(),
)
def test_calls(seed: int, count: int, numbers: tuple[int, ...], jobs: int, reused: bool) -> None:
    events = random_events(seed, {"syscall": count, "thread": 8})
    rng, made = np.random.default_rng(seed), events["syscall"]
    for field, some in (
        ("call", numbers), ("open_flags", FLAGS), ("rwf", OWN_FLAGS), ("result", RESULTS),
    ):  # fmt: skip
        # Rare ones are in some of the pieces alone.
        places = rng.integers(0, len(some), count)
        made[field] = np.array(some)[np.sort(places) if field == "call" else places]
    if reused:
        # A number that another thread had before.
        events["thread"]["subject_tid"] = 7
        made["tid"][::3] = 7
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "AT_ONCE", 16)
        trace = read_trace(write(Path(directory), events))
        found = vars(operations_of_calls(trace, "syscall", jobs))
        with twin():
            told = vars(operations_of_calls(trace, "syscall"))
        for name, column in told.items():
            assert found[name].dtype == column.dtype, name
            assert found[name].tolist() == column.tolist(), name
