# SPDX-License-Identifier: Apache-2.0
"""Packets of TCP on this kernel: of the ports that were asked for, each byte that went, once."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.columns import Ints, columns_of
from iostrata.record import find_recorder
from iostrata.recording import open_recording
from iostrata.trace import Trace, read_trace

QUESTION, ANSWER = 100_000, 3_000
# On two ports, of which one is asked for; it tells the numbers of these, and of its own ends.
TALK: Final = """
import socket, sys, threading
question, answer, where = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

def whole(end, size):
    while size:
        size -= len(end.recv(size))

def serve(listening):
    end, _ = listening.accept()
    with end:
        whole(end, question)
        end.sendall(bytes(answer))
        end.recv(1)

for port in map(int, sys.argv[4:]):
    with socket.create_server((where, port), family=socket.AF_INET6 if ":" in where else
                              socket.AF_INET) as listening:
        server = threading.Thread(target=serve, args=(listening,))
        server.start()
        with socket.create_connection((where, port)) as end:
            print(end.getsockname()[1], flush=True)
            end.sendall(bytes(question))
            whole(end, answer)
        server.join()
"""


def bytes_of(trace: Trace, point: str, to_server: bool) -> int:
    """How many different ones there were in a connection's stream."""
    found = columns_of(trace.points[point], "sequence", "size_bytes", "to_server")
    mine = found["to_server"] == to_server
    begin, size = found["sequence"][mine], found["size_bytes"][mine]
    return len(distinct_bytes(begin, size))


def distinct_bytes(begin: Ints, size: Ints) -> Ints:
    each = [np.arange(first, first + count) for first, count in zip(begin, size, strict=True)]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *each]) % (1 << 32))


@pytest.mark.parametrize("where", ["127.0.0.1", "::1"])
def test_each_byte_of_a_port(tmp_path: Path, where: str) -> None:
    asked, other = 20490, 20491
    talk = [sys.executable, "-c", TALK, *map(str, (QUESTION, ANSWER, where, asked, other))]
    words = [
        str(find_recorder()),
        "-o",
        str(tmp_path / "trace"),
        "--packets",
        str(asked),
        "--",
        *talk,
    ]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    client = int(said.split()[0])
    trace = read_trace(tmp_path / "trace")
    for point in ("packet_sent", "packet_received"):
        assert bytes_of(trace, point, to_server=True) == QUESTION
        assert bytes_of(trace, point, to_server=False) == ANSWER
        found = columns_of(trace.points[point], "connection", "device", "ends")
        assert set(found["connection"].tolist()) == {client << 16 | asked}
        assert len(set(found["ends"].tolist())) == 1
        assert set(found["device"].tolist()) == {1}


def test_none_unless_asked_for(tmp_path: Path) -> None:
    talk = [sys.executable, "-c", TALK, *map(str, (QUESTION, ANSWER, "127.0.0.1", 20490))]
    words = [str(find_recorder()), "-o", str(tmp_path / "trace"), "--", *talk]
    subprocess.run(words, check=True)
    trace = read_trace(tmp_path / "trace")
    assert not len(trace.points["packet_sent"])
    assert not len(trace.points["packet_received"])


def test_a_port_that_nobody_uses_is_told(tmp_path: Path) -> None:
    """Of those that were asked for it is said which one had no packet."""
    used, unused = 20492, 20493
    talk = [sys.executable, "-c", TALK, *map(str, (QUESTION, ANSWER, "127.0.0.1", used))]
    write = ["dd", "if=/dev/zero", f"of={tmp_path}/written", "bs=4k", "count=4", "oflag=dsync"]
    command = f"{shlex.join(talk)} && exec {shlex.join(write)}"
    asked = ["--packets", str(used), "--packets", str(unused)]
    run = [sys.executable, "-m", "iostrata", "record", "-o", str(tmp_path / "r"), *asked]
    subprocess.run([*run, "--", "sh", "-c", command], check=True, capture_output=True)
    quality = analyse(open_recording(tmp_path / "r")).quality
    packets = [gap.layer for gap in quality.not_observed if gap.layer.startswith("packets")]
    assert packets == [f"packets of port {unused}"]
