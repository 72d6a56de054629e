# SPDX-License-Identifier: Apache-2.0
"""The script and who reads its lines know the same words, with as many cells."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from iostrata.script import script
from iostrata.script.words import (
    BEGUN,
    END,
    FACTS,
    HEAD,
    MOUNTS,
    NAME,
    PARTITIONS,
    THREAD,
    VERSION,
    WORDS,
)

PROBES = r"((?:(?:tracepoint:[\w:*]+|BEGIN|END),?\n)+)"
CLAUSES = re.compile(PROBES + r"(/[^\n]*/\n)?\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
PRINTF = re.compile(r'printf\("([^"]*)"')
OF_THREAD = 4
"""Process, kind, and two names."""


def clauses() -> Iterator[tuple[list[str], str]]:
    """The probes of each clause, and what it does."""
    for probes, _, body in CLAUSES.findall(script()):
        yield [probe.strip(",") for probe in probes.split()], body


def printed() -> Iterator[tuple[str, int]]:
    """Each word that the script prints, and how many cells follow."""
    for probes, body in clauses():
        for text in PRINTF.findall(body):
            first, *cells = text.replace("\\n", "").split()
            names = [first]
            if first == "%s":
                parts = (probe.rpartition(":")[2] for probe in probes)
                names = [_only(part) for part in parts]
            yield from ((name, len(cells)) for name in names)


def _only(pattern: str) -> str:
    """The word that a probe is of: a wildcard stands for one letter."""
    matches = [word for word in WORDS if re.fullmatch(pattern.replace("*", "."), word)]
    assert len(matches) == 1, pattern
    return matches[0]


def test_all_of_the_script_is_looked_at() -> None:
    assert len(list(clauses())) == script().count("\n{\n")


def test_words_and_cells_are_the_same() -> None:
    told = dict(printed())
    assert set(told) == {*WORDS, THREAD, NAME, *FACTS, PARTITIONS, MOUNTS, BEGUN, END}
    for word, kind in WORDS.items():
        assert told[word] == len(HEAD) + len(kind.cells), word
    assert told[THREAD] == len(HEAD) + OF_THREAD


def test_each_word_is_printed_with_one_number_of_cells() -> None:
    found = list(printed())
    assert len(set(found)) == len(dict(found))


def test_versions_are_the_same() -> None:
    assert f'printf("{NAME} {VERSION} ' in script()


@pytest.mark.parametrize(
    ("older", "newer"), [("rawtracepoint", "tracepoint"), ("args.", "args->"), ("unsafe", "cat")]
)
def test_it_is_of_what_every_bpftrace_has(older: str, newer: str) -> None:
    """No raw tracepoints before 0.18, no `args.` before 0.19; nothing needs --unsafe."""
    assert older not in script()
    assert newer in script()
