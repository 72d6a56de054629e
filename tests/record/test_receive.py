# SPDX-License-Identifier: Apache-2.0
"""What a machine that was taken over may send instead of its trace, and what comes of it here."""

from __future__ import annotations

import io
import subprocess
from itertools import product
from pathlib import Path

import pytest

from iostrata.errors import RecorderError
from iostrata.record.receive import BEGIN, MOST_BYTES, SEND, receive

HEAD = f"{BEGIN}\n".encode()


def sent(*parts: tuple[str, bytes]) -> bytes:
    files = b"".join(b"%d %s\n%s" % (len(data), name.encode(), data) for name, data in parts)
    return HEAD + files + b"end\n"


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_trace_arrives_as_it_was(tmp_path: Path) -> None:
    """Empty streams, and bytes that look like the next file's line."""
    trace = {
        "metadata": b"/* CTF 1.8 */\n5 facts/x\nend\n",
        "recorder": b"",
        "cpu_0": bytes(range(256)) * 9000,
        "cpu_117": b"end\n",
        "cpu_2.zst": b"\x28\xb5\x2f\xfd",
        "facts/mountinfo": b"1 2\n",
        "facts/exchange": b"",
    }
    there = tmp_path / "there"
    (there / "facts").mkdir(parents=True)
    for name, data in trace.items():
        (there / name).write_bytes(data)
    (there / "foreign").write_text("no part of a trace")
    (there / "cpu_1").mkdir()
    out = subprocess.run(["sh", "-c", SEND, "sh", there, BEGIN], capture_output=True, check=True)
    receive(io.BytesIO(b"Welcome to vm!\r\n\n" + out.stdout), tmp_path / "here")
    assert files_of(tmp_path / "here") == trace


@pytest.mark.parametrize(
    "name",
    [
        "../victim", "facts/../../victim", "/tmp/victim", "facts/a/b", "facts", ".", "", "cpu_",
        "cpu_1/../../x", "metadata\x00", "facts/X", "recorder ", "cpu_٣",
        "cpu_.zst", "cpu_1.zst.x", "cpu_1.zs",
    ],
)  # fmt: skip
def test_no_other_name_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecorderError, match=r"no recorder writes|not arrive whole"):
        receive(io.BytesIO(sent((name, b"x"))), tmp_path / "here")
    assert files_of(tmp_path) == {}


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (b"", "no trace"),
        (b"\n" * (1 << 20) + HEAD, "something else"),
        (b"x" * (2 << 20), "something else"),
        (HEAD, "not arrive whole"),
        (HEAD + b"5 metadata\nabc", "not arrive whole"),
        (HEAD + b"9" * 400 + b" metadata\n", "not arrive whole"),
        (HEAD + b"-5 metadata\n", "no recorder writes"),
        (HEAD + b"1e9 metadata\n", "no recorder writes"),
        (HEAD + b"999999999999999999 cpu_0\n", "no room"),
        (HEAD + b"%d facts/block\n" % (MOST_BYTES + 1), "no recorder's is"),
        (sent(("metadata", b"a"), ("metadata", b"b")), "cannot be written"),
    ],
)
def test_what_is_no_trace_is_told(tmp_path: Path, stream: bytes, why: str) -> None:
    with pytest.raises(RecorderError, match=why):
        receive(io.BytesIO(stream), tmp_path / "here")


def test_so_many_files_no_recorder_writes(tmp_path: Path) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    facts = [("facts/" + "".join(name), b"") for name in product(letters, repeat=3)]
    with pytest.raises(RecorderError, match="more files"):
        receive(io.BytesIO(sent(*facts)), tmp_path / "here")


def test_what_came_before_the_end_is_kept(tmp_path: Path) -> None:
    stream = sent(("metadata", b"abc"), ("cpu_0", b"0123456789"))
    with pytest.raises(RecorderError, match="whole"):
        receive(io.BytesIO(stream[: -len("456789end\n")]), tmp_path / "here")
    assert files_of(tmp_path / "here") == {"metadata": b"abc", "cpu_0": b"0123"}


def test_no_link_is_followed_and_no_mode_is_taken(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "here").symlink_to(tmp_path)
    with pytest.raises(RecorderError, match="cannot be made"):
        receive(io.BytesIO(sent(("metadata", b"x"))), tmp_path / "here")
    receive(io.BytesIO(sent(("recorder", b"#!/bin/sh"))), tmp_path / "there")
    assert (tmp_path / "there" / "recorder").stat().st_mode & 0o7111 == 0
    assert victim.read_text() == "mine"
    assert files_of(tmp_path / "there") == {"recorder": b"#!/bin/sh"}
