# SPDX-License-Identifier: Apache-2.0
"""The committed layout is the one of bpf/events.h, and of the recorder as it is built."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from iostrata.errors import IostrataError
from iostrata.trace import layout
from iostrata.trace.btf import Types, types_of
from iostrata.trace.generate_layout import fields_of, generate, header_types, point_structs

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "bpf" / "events.h"
REGENERATE = (
    "python -m iostrata.trace.generate_layout bpf/events.h > tracer/iostrata/trace/layout.py"
)


def test_layout_is_that_of_the_header() -> None:
    if shutil.which("clang-14") is None and shutil.which("clang") is None:
        pytest.skip("no clang to compile bpf/events.h with")
    text = generate(header_types(HEADER))
    committed = (ROOT / "tracer" / "iostrata" / "trace" / "layout.py").read_text()
    assert text == committed, f"run `{REGENERATE}`"


def test_layout_is_that_of_the_recorder() -> None:
    built = ROOT / "bpf" / "build" / "iostrata.o"
    if not built.exists():
        pytest.skip("the recorder is not built (`make -C bpf`)")
    if built.stat().st_mtime < HEADER.stat().st_mtime:
        pytest.skip("the recorder is older than bpf/events.h (`make -C bpf`)")
    types = types_of(built)
    structs = point_structs(types)
    assert structs == layout.STRUCT_OF
    assert list(structs) == list(layout.POINTS)
    for name in set(structs.values()):
        assert fields_of(types, name) == layout.STRUCTS[name]


def test_every_event_fills_its_slot() -> None:
    assert list(layout.POINTS.values()) == list(range(1, len(layout.POINTS) + 1))
    for point, dtype in layout.DTYPES.items():
        assert dtype.itemsize == layout.EVENT_BYTES, point
        assert dtype.names is not None
        assert dtype.names[:4] == ("time_ns", "point", "cpu", "tid")


def test_what_has_no_types_is_refused(tmp_path: Path) -> None:
    if shutil.which("bpftool") is None:
        pytest.skip("no bpftool to read types with")
    nothing = tmp_path / "nothing.o"
    nothing.write_bytes(b"nothing of the kind, but long enough to be")
    with pytest.raises(IostrataError, match="has no BTF"):
        types_of(nothing)


def test_a_hole_in_a_struct_is_refused() -> None:
    with pytest.raises(IostrataError, match="hole before b"):
        fields_of(types_of_struct([("a", 1, 0), ("b", 2, 64)]), "holey")


def test_types_not_found_are_named() -> None:
    with pytest.raises(IostrataError, match="no type event"):
        types_of_struct([("a", 1, 0)]).find("UNION", "event")


def types_of_struct(members: list[tuple[str, int, int]]) -> Types:
    """A struct ``holey``: u32 is type 1, u64 type 2; members are name, type, bit offset."""
    integers = [
        {"id": number, "kind": "INT", "name": f"u{8 * size}", "size": size, "encoding": "(none)"}
        for number, size in ((1, 4), (2, 8))
    ]
    named = [
        {"name": name, "type_id": number, "bits_offset": offset} for name, number, offset in members
    ]
    return Types([*integers, {"id": 3, "kind": "STRUCT", "name": "holey", "members": named}])
