# SPDX-License-Identifier: Apache-2.0
"""Functions of Ceph's libraries are found in a virtual machine's process, and tell what they do."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from iostrata.trace.layout import (
    THREAD_DAEMON,
    THREAD_LIBRBD,
    THREAD_VMM,
    UNSEEN_DISCARDS,
    UNSEEN_LIBRBD,
)
from iostrata.trace.read import Trace, read_trace
from tests.root.daemon import PROGRAMS, compiled
from tests.root.test_duties import recording
from tests.root.test_vmm import kvm  # noqa: F401

COUNT = 25
PR_SET_NAME = 15
# A thread gets a name, as those of the library's do.
NAMED = f"""
import ctypes, sys, threading
rename, name = ctypes.CDLL(None).prctl, sys.argv[1].encode()
thread = threading.Thread(target=rename, args=({PR_SET_NAME}, name))
thread.start()
thread.join()
"""
POINTS = ("librbd_request", "librbd_done", "librbd_sent", "librbd_answered")


@pytest.fixture(params=["kvm", "tgtd", "rbd-nbd", "qemu-nbd", "workload", "before"])
def trace(recorder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Trace:
    """Of a virtual machine's process, of one that executes a program of that name, or of one that
    is recorded itself, and has a disk from then on, or had before."""
    for name in ("librbd.so.1", "libceph-common.so.2"):
        compiled(tmp_path, "-shared", "-fPIC", name=name, source="librbd.c")
    program = Path(sys.executable).resolve()
    if request.param != "kvm":
        program = Path(shutil.copy(program, tmp_path / request.param))
    words = [str(program), str(PROGRAMS / "librbd_user.py"), str(tmp_path), request.param]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        asked = ["--path"]
        if request.param in ("workload", "before"):
            asked = ["--duty", "workload", "--duty", "vmm", "--pid", str(process.pid)]
        with recording(recorder, tmp_path / "trace", *asked):
            print(COUNT, file=process.stdin, flush=True)
            assert process.stdout.readline() == "done\n"
        process.communicate()
    found = read_trace(tmp_path / "trace")
    tgids = {tgid for name in POINTS[2:] for tgid in found.points[name]["tgid"].tolist()}
    assert tgids == {process.pid}
    return found


def test_requests_and_operations_are_told(trace: Trace, request: pytest.FixtureRequest) -> None:
    expected: list[tuple[int, int, int]] = []
    assert trace.lost_by_point == {}
    asked, done, sent, answered = (trace.points[name] for name in POINTS)
    first, then = slice(7 * COUNT), slice(7 * COUNT, None)
    assert asked["size_bytes"][then].tolist() == [512] * COUNT + [256] * COUNT + [128]
    ends = done["request_key"][6 * COUNT :].tolist()
    assert asked["request_key"][then].tolist() == ends
    assert asked["offset_bytes"][first].tolist() == [255 << 22, 512, 0, 8192, 0, 512, 0] * COUNT
    assert asked["size_bytes"][first].tolist() == [12288, 1024, 0, 2048, 0, 4096, 0] * COUNT
    assert asked["flushes"][first].tolist() == [0, 0, 1, 0, 1, 0, 1] * COUNT
    assert len(set(asked["image_key"].tolist())) == 1
    keys = asked["request_key"][first].reshape(COUNT, 7)
    # The second is answered only when the third uses its completion again.
    answers = np.delete(keys, 1, axis=1)
    assert (keys[:, 1] == keys[:, 2]).all()
    assert done["request_key"][: 6 * COUNT].tolist() == answers.ravel().tolist()
    assert answered["number"].tolist() == list(range(COUNT))
    assert set(sent["client"].tolist()) == {4130}
    # Each write of data, and then one of what the disk itself has.
    numbers = [each for number in range(COUNT) for each in (number, 5000, 5003)]
    assert sent["number"].tolist() == numbers
    assert sent["object"].tolist() == [255, 0, 0] * COUNT
    assert sent["offset_bytes"][::3].tolist() == [8192 * number for number in range(COUNT)]
    assert sent["size_bytes"].tolist() == [12288, 0, 0] * COUNT
    (disk,) = set(sent["image"].tolist())
    laid = trace.points["librbd_image"]
    assert set(laid["image_key"].tolist()) == set(asked["image_key"].tolist())
    *images, other = laid["image"].tolist()
    assert set(images) == {disk} != {other}
    for name, value in (("object_bytes", 1 << 21), ("stripe_bytes", 1 << 16),
                        ("stripe_objects", 3)):  # fmt: skip
        assert set(laid[name].tolist()) == {value}
    assert set(answered["osd_number"].tolist()) == {2}
    threads = trace.points["thread"]
    kinds = threads["kind"][threads["tgid"] == int(sent["tgid"][0])]
    (kind,) = set(kinds.tolist())
    assert kind in (THREAD_VMM, THREAD_DAEMON, THREAD_LIBRBD)
    unseen = trace.points["unseen"]
    if request.node.callspec.params["trace"] == "workload":
        expected.append((UNSEEN_LIBRBD, 1, int(sent["tgid"][0])))
    if kind == THREAD_LIBRBD:
        expected.append((UNSEEN_DISCARDS, COUNT, 0))
    # Told of until then, each second.
    columns = (unseen[name].tolist() for name in ("kind", "count", "dev"))
    last = {kind: (kind, count, dev) for kind, count, dev in zip(*columns, strict=True)}
    assert list(last.values()) == expected


@pytest.mark.parametrize("by", ["command", "name"])
def test_who_of_the_workload_has_the_library_is_told(
    recorder: Path, tmp_path: Path, by: str
) -> None:
    """As what it asks of disks by that is no call; not of a process that was not asked for."""
    program = Path(sys.executable).resolve()
    mine, other = (Path(shutil.copy(program, tmp_path / name)) for name in "xy")

    def named(program: Path, name: str) -> list[str]:
        return [str(program), "-c", NAMED, name]

    named_so = [(mine, "taskfin_librbd"), (mine, "taskfin_"), (other, "taskfin_librbd")]
    if by == "command":
        words = [str(recorder), "-o", str(tmp_path / "trace"), "--", *named(*named_so[0])]
        subprocess.run(words, check=True, capture_output=True)
    else:
        with recording(recorder, tmp_path / "trace", "--comm", mine.name):
            for each in named_so:
                subprocess.run(named(*each), check=True)
    told = read_trace(tmp_path / "trace").points["unseen"]
    assert (told["kind"].tolist(), told["count"][-1:].tolist()) == ([UNSEEN_LIBRBD], [1])
