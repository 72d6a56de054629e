# SPDX-License-Identifier: Apache-2.0
"""The program that ``bench`` records, and so loads little: it writes a file by each method."""

from iostrata.workload.methods import FILE_BYTES, TESTS
from iostrata.workload.phase import Phase, read_phases
from iostrata.workload.run import main

__all__ = ["FILE_BYTES", "TESTS", "Phase", "main", "read_phases"]
