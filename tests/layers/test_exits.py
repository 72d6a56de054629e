# SPDX-License-Identifier: Apache-2.0
"""Names of exit reasons: AMD's and Intel's, against what Linux calls them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from iostrata.layers.exits import NAMES, NOT_KNOWN, SVM, VMX, exit_name, is_idle

# Debian's linux-libc-dev
HEADERS: Final = Path("/usr/include/x86_64-linux-gnu/asm")
DEFINITION: Final = r"#define {}(\w+)\s+(0x[0-9a-f]+|\d+)\s"
# No reasons of the processor: bounds of a range, and what software agreed upon.
NO_REASONS: Final = {"excp_base", "last_excp", "sw"}


def defined(header: str, prefix: str) -> Iterator[tuple[int, str]]:
    path = HEADERS / header
    if not path.exists():
        pytest.skip(f"there is no {path}")
    for name, number in re.findall(DEFINITION.format(prefix), path.read_text()):
        if name.lower() not in NO_REASONS:
            yield int(number, 0), name.lower()


@pytest.mark.parametrize(
    ("isa", "header", "prefix"),
    [(SVM, "svm.h", "SVM_EXIT_"), (VMX, "vmx.h", "EXIT_REASON_")],
)
def test_every_reason_is_called_as_linux_calls_it(isa: int, header: str, prefix: str) -> None:
    reasons = list(defined(header, prefix))
    assert len(reasons) > 60
    assert [(number, exit_name(isa, number)) for number, _ in reasons] == reasons


@pytest.mark.parametrize(
    ("isa", "reason", "name"),
    [
        (SVM, 0x400, "npf"),
        (SVM, 0x78, "hlt"),
        (SVM, 0x7C, "msr"),
        (SVM, 0x60, "intr"),
        (SVM, 0x4E, "exception_14"),
        (SVM, 0x14, "write_cr4"),
        (VMX, 12, "hlt"),
        (VMX, 30, "io_instruction"),
        (VMX, 49, "ept_misconfig"),
        (VMX, 52, "preemption_timer"),
        (VMX, 0x78, "0x78"),
        (0, 12, "0xc"),
        (SVM, NOT_KNOWN, "not known"),
    ],
)
def test_names(isa: int, reason: int, name: str) -> None:
    assert exit_name(isa, reason) == name


def test_no_name_is_given_twice() -> None:
    for names in NAMES.values():
        assert len(set(names.values())) == len(names)


def test_a_guest_without_work() -> None:
    isa = np.array([SVM, SVM, SVM, VMX, VMX, VMX])
    reason = np.array([0x78, 0xA6, 12, 12, 0x78, 36])
    assert is_idle(isa, reason).tolist() == [True, True, False, True, False, True]
