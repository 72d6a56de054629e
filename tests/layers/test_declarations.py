# SPDX-License-Identifier: Apache-2.0
"""What is said of a layer is said in its declaration, and nowhere else."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Final

from iostrata.hops import HOPS as CROSSINGS
from iostrata.layers import HOPS, LAYERS, OBSERVERS, PROGRAMS, RANK, ROWS, STACK, VISIBILITY
from iostrata.trace.layout import POINTS

PACKAGE: Final = Path(__file__).parents[2] / "tracer" / "iostrata"
SOURCES: Final = Path(__file__).parents[2] / "bpf"
# Those that make spans name the ranks that they make.
MAKERS: Final = frozenset({"layers", "stitch", "hops"})


def test_names_are_one_layers() -> None:
    assert len(ROWS) == len({row.name for row in ROWS})
    assert len(STACK) == len(RANK)
    assert len(VISIBILITY) == len({visibility.name for visibility in VISIBILITY})


def test_every_rank_credits_a_row_of_its_own_layer() -> None:
    # What only time ties, and what is below a stacked device, is the block layer's as well.
    for layer in LAYERS:
        rows = {row.name for row in layer.rows}
        assert {rank.row for rank in layer.ranks} <= rows | {None}
        assert rows <= {rank.row for rank in layer.ranks}


def test_the_ways_between_machines_come_first() -> None:
    assert STACK[: len(HOPS)] == HOPS
    assert [rank.depth for rank in STACK] == sorted(rank.depth for rank in STACK)


def test_programs_and_sights_name_what_there_is() -> None:
    source = "".join(path.read_text() for path in SOURCES.glob("*.bpf.c"))
    programs = re.findall(r"^(?:PROGRAM\(.*, |int (?:BPF_\w+\()?)(\w+)[(,]", source, re.M)
    prefixes = {name.partition("_")[0] for name in programs}
    assert {each.prefix for each in PROGRAMS} <= prefixes
    assert {prefix for visibility in VISIBILITY for prefix in visibility.prefixes} <= prefixes
    assert {name for visibility in VISIBILITY for name in visibility.programs} <= set(programs)
    assert {point for observer in OBSERVERS for point in observer.points} <= set(POINTS)


def test_every_program_is_visible() -> None:
    """What no ``Visibility`` names, ``doctor`` would not tell of."""
    sources = {path.name.partition(".")[0] for path in SOURCES.glob("*.bpf.c")} - {"state"}
    told = Counter(prefix for visibility in VISIBILITY for prefix in visibility.prefixes)
    # Where a descriptor's file is, and how it is called: parts of every call; what ioctl shares
    # with a file is one of them.
    assert sources - set(told) <= {"clone", "file", "name"}
    assert max(told.values()) == 1


def test_no_other_place_names_a_hop_or_what_a_role_is_recorded_for() -> None:
    """But where a word is the kernel's or the recorder's own: a file system, a disk, a duty."""
    names = {hop.name for hop in CROSSINGS} | {each.name for each in VISIBILITY if each.role}
    classes = {type(hop).__name__ for hop in CROSSINGS}
    assert names > {"nfs", "virtio", "kvm", "svc"}
    found = {
        (str(path.relative_to(PACKAGE)), word)
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in {*MAKERS, "lab"}
        for node in ast.walk(ast.parse(path.read_text()))
        for word in (
            {node.value} & names
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            else {alias.name for alias in node.names} & classes
            if isinstance(node, ast.ImportFrom)
            else set()
        )
    }
    assert found == {
        ("analysis/networks.py", "iscsi"),
        ("analysis/networks.py", "nbd"),
        ("analysis/networks.py", "virtio"),
        ("record/duties.py", "nbd"),
        ("record/duties.py", "osd"),
        ("record/duties.py", "virtiofs"),
        ("record/mounts.py", "nfs"),
    }


def test_no_other_place_names_a_row() -> None:
    names = {name for name in [*RANK, *(row.name for row in ROWS)] if "." in name}
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.value}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in MAKERS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert not found
