# SPDX-License-Identifier: Apache-2.0
"""Bench: the synchronous-write methods of pg_test_fsync, and where each one's time went."""

from iostrata.bench.json import Bench, render
from iostrata.bench.place import test_file
from iostrata.bench.result import measure, summarise_tests
from iostrata.bench.show import lines

__all__ = ["Bench", "lines", "measure", "render", "summarise_tests", "test_file"]
