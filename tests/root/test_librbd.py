# SPDX-License-Identifier: Apache-2.0
"""Functions of Ceph's libraries are found in a virtual machine's process, and tell what they do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from iostrata.trace.layout import THREAD_VMM
from iostrata.trace.read import Trace, read_trace
from tests.root.daemon import PROGRAMS, compiled
from tests.root.test_duties import recording
from tests.root.test_vmm import kvm  # noqa: F401

COUNT = 25
POINTS = ("librbd_request", "librbd_done", "librbd_sent", "librbd_answered")


@pytest.fixture
def trace(recorder: Path, tmp_path: Path) -> Trace:
    for name in ("librbd.so.1", "libceph-common.so.2"):
        compiled(tmp_path, "-shared", "-fPIC", name=name, source="librbd.c")
    words = [sys.executable, str(PROGRAMS / "librbd_user.py"), str(tmp_path)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        with recording(recorder, tmp_path / "trace", "--path"):
            print(COUNT, file=process.stdin, flush=True)
            assert process.stdout.readline() == "done\n"
        process.communicate()
    found = read_trace(tmp_path / "trace")
    tgids = {tgid for name in POINTS[2:] for tgid in found.points[name]["tgid"].tolist()}
    assert tgids == {process.pid}
    return found


def test_requests_and_operations_are_told(trace: Trace) -> None:
    assert trace.lost_by_point == {}
    asked, done, sent, answered = (trace.points[name] for name in POINTS)
    assert asked["offset_bytes"].tolist() == [255 << 22, 512, 0] * COUNT
    assert asked["size_bytes"].tolist() == [12288, 1024, 0] * COUNT
    assert asked["flushes"].tolist() == [0, 0, 1] * COUNT
    assert len(set(asked["image_key"].tolist())) == 1
    first, other, flush = (asked["request_key"][each::3].tolist() for each in range(3))
    assert done["request_key"][::2].tolist() == first
    assert done["request_key"][1::2].tolist() == other == flush
    assert sent["number"].tolist() == answered["number"].tolist() == list(range(COUNT))
    assert set(sent["client"].tolist()) == {4130}
    assert set(sent["object"].tolist()) == {255}
    assert sent["offset_bytes"].tolist() == [8192 * number for number in range(COUNT)]
    assert set(sent["size_bytes"].tolist()) == {12288}
    assert set(answered["osd_number"].tolist()) == {2}
    threads = trace.points["thread"]
    kinds = threads["kind"][threads["tgid"] == int(sent["tgid"][0])]
    assert set(kinds.tolist()) == {THREAD_VMM}
