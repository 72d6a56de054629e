# SPDX-License-Identifier: Apache-2.0
"""Metadata written is read the same; what is broken, foreign or newer is refused with a reason."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata.errors import RecordingError
from iostrata.trace import layout
from iostrata.trace.metadata import Clock, parse, render

UUID = bytes(range(16))
printable = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
CLOCK = Clock("monotonic", "12345678-1234-5678-1234-567812345678", "of a machine", 17, 42)
TEXT = render(layout.POINTS, layout.DTYPES, {"iostrata_format": 1, "hostname": "x"}, CLOCK, UUID)


def unsealed(text: str) -> str:
    return re.sub(r"/\* crc32 .*\*/", "", text)


def test_every_point_comes_back() -> None:
    found = parse(TEXT)
    assert found.uuid == UUID
    assert found.clock == CLOCK
    assert found.points == layout.POINTS
    assert found.dtypes == layout.DTYPES


@given(printable, st.integers(-(1 << 63), (1 << 63) - 1))
def test_env_comes_back(text: str, number: int) -> None:
    env: dict[str, str | int] = {"iostrata_format": 1, "command": text, "number": number}
    assert parse(render({}, {}, env, Clock(), UUID)).env == env


def test_lines_and_comments_do_not_matter() -> None:
    text = re.sub(r"\s+", " ", unsealed(TEXT).replace("/* CTF 1.8 */", ""))
    assert parse(text.replace(";", "/* here */ ;\n// there\n")).dtypes == layout.DTYPES


def test_fields_of_another_version_are_placed_by_ctf_rules() -> None:
    text = unsealed(TEXT).replace(
        "uint64_t inode;\n\t\tint64_t offset_bytes;", "uint8_t inode;\n\t\tuint16_t other[1];", 1
    )
    with pytest.raises(RecordingError, match="array of something else"):
        parse(text)
    found = parse(text.replace("uint16_t other[1]", "char_t other[3]"))
    dtype = found.dtypes["syscall"]
    assert dtype.fields is not None
    assert dtype.fields["inode"][:2] == (np.dtype("u1"), 24)
    assert dtype.fields["other"][:2] == (np.dtype("S3"), 25)
    assert dtype.fields["dev"][:2] == (np.dtype("<u4"), 28)
    assert dtype.itemsize == layout.EVENT_BYTES


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (TEXT.replace("iostrata_format = 1", "iostrata_format = 2"), "has format 2"),
        ("/* CTF 2 */ {!} iostrata_format = 7;", "has format 7"),
        (TEXT.replace("iostrata_format = 1", "other = 1"), "does not say that iostrata"),
        (TEXT.replace("size_bytes", "size_bites"), "checksum"),
        (unsealed(TEXT).replace("id = 3;", "id = 4;"), "share a name or a number"),
        (unsealed(TEXT).replace("id = 3;", "id = 65536;"), "no room in its header"),
        (unsealed(TEXT).replace("id = 3;", "id = -2;"), "broken"),
        (unsealed(TEXT).replace("align(512)", "align(64)"), "slots of 64"),
        (unsealed(TEXT).replace("uint32_t crc32;", ""), "other fields"),
        (unsealed(TEXT).replace("uint64_t enter_ns;", "float enter_ns;"), "float"),
        (unsealed(TEXT).replace("size = 32", "size = 24"), "24 bits"),
        (unsealed(TEXT).replace("char_t comm[16]", "char_t comm[66]"), "more than 64"),
        (unsealed(TEXT)[:-200], "cut short: it ends after"),
        (TEXT[:5], "cut short: it ends after 5 bytes"),
        (unsealed(TEXT).replace("freq = 1000000000", "freq = 1000"), "nanoseconds"),
        (unsealed(TEXT) + "\n@ {};", "unexpected '@'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(wrong: str, reason: str) -> None:
    with pytest.raises(RecordingError, match=reason) as caught:
        parse(wrong)
    assert caught.value.hint


@given(st.integers(0, len(TEXT) - 1), st.characters(codec="ascii"))
def test_a_changed_letter_is_never_misread(at: int, letter: str) -> None:
    try:
        found = parse(TEXT[:at] + letter + TEXT[at + 1 :])
    except RecordingError:
        return
    assert found == parse(TEXT)


@given(st.integers(0, len(TEXT) - 1))
def test_cut_short_at_any_place_is_refused(at: int) -> None:
    whole = TEXT.rindex("/* crc32")
    ends = TEXT[:at].rstrip().endswith("};")
    try:
        parse(TEXT[:at])
    except RecordingError as error:
        why = str(error)
    else:
        assert at >= whole - 1 or ends
        return
    assert why.startswith("the metadata is cut short") or ends
