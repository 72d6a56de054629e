# SPDX-License-Identifier: Apache-2.0
"""Bench: the synchronous-write methods of pg_test_fsync, and where each one's time went."""

from iostrata.bench.json import Bench, render
from iostrata.bench.place import test_file
from iostrata.bench.result import measure, summarise_tests
from iostrata.bench.show import lines
from iostrata.bench.workload import Phase, read_phases

__all__ = [
    "Bench", "Phase", "lines", "measure", "read_phases", "render", "summarise_tests", "test_file",
]  # fmt: skip
