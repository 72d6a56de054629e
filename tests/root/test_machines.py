# SPDX-License-Identifier: Apache-2.0
"""Recordings of several machines by a real sshd: all of them are this one, seen as many."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iostrata.record.ssh import COMMAND
from iostrata.recording import open_recording
from tests.root.conftest import IOSTRATA, iostrata
from tests.root.sshd import SSHD, Sshd, running
from tests.root.test_record import WRITES, found, good, writer

BOTH = ("record", "-o", "out", "--machine", "guest=ssh:near", "--machine", "server=local")
LIMIT_S = 60


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    if not SSHD.exists():
        pytest.skip("openssh-server is not installed")
    with running(tmp_path_factory.mktemp("sshd")) as found:
        yield found


@pytest.fixture(autouse=True)
def entered(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMAND, sshd.ssh)


def recorded(disk: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((disk / "out" / "recording.json").read_text())
    return document


def wait_for(what: Any, process: subprocess.Popen[str]) -> Any:
    end = time.monotonic() + LIMIT_S
    while not (value := what()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    return value


def test_a_guest_by_ssh_and_this_machine(disk: Path, sshd: Sshd) -> None:
    *python, program = writer("fdatasync")
    program = f"import os, sys; os.chdir({str(disk)!r}); print('seen')\n{program}sys.exit(3)\n"
    done = iostrata(*BOTH, "--", *python, program, cwd=disk)
    assert done.returncode == 3, done.stderr
    assert done.stdout == "seen\n"
    assert "warning: guest and server are the same machine" in done.stderr
    guest = iostrata("replay", "out/guest", "--json", "-", cwd=disk)
    good(guest.returncode, guest.stderr)
    assert found(json.loads(guest.stdout)) == WRITES
    # The server was recorded before the first call and after the last, by its own recorder.
    above, below = open_recording(disk / "out").traces()
    first = above.points["syscall"].integers("enter_ns")["enter_ns"].min()
    assert below.begin_ns < first < above.end_ns < below.end_ns
    assert below.env["filter"] == "--path"
    for machine in open_recording(disk / "out").machines:
        facts = disk / "out" / machine.directory / "facts"
        assert machine.facts.keys() == {path.name for path in facts.iterdir()}
    # One clock, asked over ssh and over a pipe: it is between question and answer.
    for trace in (above, below):
        rows = (trace.directory / "facts" / "exchange").read_text().splitlines()[1:]
        assert len(rows) >= 20
        for row in rows:
            sent_ns, remote_ns, received_ns = map(int, row.split("\t"))
            assert sent_ns < remote_ns < received_ns
    assert sshd.recorders() == {}


def test_they_send_frames(disk: Path, sshd: Sshd) -> None:
    program = f"import os; os.chdir({str(disk)!r})\n{writer('fdatasync')[-1]}"
    done = iostrata(*BOTH, "--compress", "--", *writer("fdatasync")[:-1], program, cwd=disk)
    assert done.returncode == 0, done.stderr
    for name in ("guest", "server"):
        streams = [path.name for path in (disk / "out" / name).glob("cpu_*")]
        assert streams
        assert all(stream.endswith(".zst") for stream in streams)
    guest = iostrata("replay", "out/guest", "--json", "-", cwd=disk)
    good(guest.returncode, guest.stderr)
    assert found(json.loads(guest.stdout)) == WRITES
    assert sshd.recorders() == {}


def test_a_connection_that_breaks_midway(disk: Path, sshd: Sshd) -> None:
    command = [*IOSTRATA, "record", "-o", "out", "--machine", "guest=local"]
    command += ["--machine", "server=ssh:near", "--", *writer("fdatasync", 1000, 0.002)]
    with subprocess.Popen(
        command, cwd=disk, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for((disk / "data").exists, process)
        ((connection, place),) = sshd.recorders().items()
        time.sleep(1.2)  # it tells its progress each second
        os.kill(connection, signal.SIGKILL)
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert "warning: machine server: the connection to its recorder was lost" in err
    guest, server = recorded(disk)["machines"]
    assert "note" not in guest
    assert "was lost" in server["note"]
    above, below = open_recording(disk / "out").traces()
    assert below.damage == ("it ends early: who had started the recorder was gone",)
    assert above.begin_ns < below.end_ns < above.end_ns
    assert not place.exists()
    assert sshd.recorders() == {}


def test_ctrl_c(disk: Path, sshd: Sshd) -> None:
    command = [*IOSTRATA, *BOTH, "--", "sh", "-c", f"touch {disk}/begun; exec sleep 100"]
    with subprocess.Popen(
        command,
        cwd=disk,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_for((disk / "begun").exists, process)
        ((_, place),) = sshd.recorders().items()
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + signal.SIGINT, err
    assert recorded(disk)["exit_status"] == 128 + signal.SIGTERM
    assert len(open_recording(disk / "out").traces()) == 2
    assert not place.exists()


def test_nobody_is_there(disk: Path) -> None:
    done = iostrata("record", "-o", "out", "--machine", "vm=ssh:shut", "--", "true", cwd=disk)
    assert done.returncode == 6
    assert "machine vm: ssh shut: " in done.stderr
    assert "Connection refused" in done.stderr
    assert "  try: it must work without questions: ssh " in done.stderr
    assert " -o BatchMode=yes shut true\n" in done.stderr


def test_a_recorder_answers_and_ends_with_its_coordinator(disk: Path, recorder: Path) -> None:
    words = [str(recorder), "--status-fd", "1", "--control-fd", "0", "-o", "trace", "--path"]
    with subprocess.Popen(
        words, cwd=disk, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        lines = iter(process.stdout.readline, f"ready {process.pid}\n")
        assert all(line.startswith("probe ") for line in lines)
        sent_ns = time.monotonic_ns()
        process.stdin.write("clock\nclock\nnonsense\n")
        process.stdin.flush()
        first, second = (process.stdout.readline().split() for _ in range(2))
        assert first[0] == second[0] == "clock"
        assert sent_ns < int(first[1]) <= int(second[1]) < time.monotonic_ns()
        assert process.stdout.readline() == "unknown nonsense\n"
        process.stdin.close()
        assert process.stdout.read().splitlines()[-1] == "done 0"
    assert process.returncode == 0


def test_a_failure_is_told_once(disk: Path, recorder: Path) -> None:
    words = [str(recorder), "--status-fd", "1", "-o", "trace", "--pid", "none"]
    done = subprocess.run(words, cwd=disk, capture_output=True, text=True, check=False)
    assert done.stdout == "failed --pid none makes no sense; see iostrata-record --help\n"
    assert done.stderr == ""
    assert done.returncode == 125
