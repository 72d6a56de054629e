# SPDX-License-Identifier: Apache-2.0
"""What comes and goes over a machine's ports, whose other end is a thread: QEMU, a recorder."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iostrata.errors import LabError, RecorderError
from iostrata.lab.machine import RunningMachine
from iostrata.lab.monitor import Monitor
from iostrata.lab.pace import Pace
from iostrata.lab.port import Port, make_port
from iostrata.lab.process import process
from iostrata.lab.transport import LabSession, LabTransport


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_port(tmp_path / "port")
    return tmp_path / "port"


def other_end(path: Path, answers: Callable[[str], Iterator[str]], lines: int) -> threading.Thread:
    """Answers so many lines."""

    def run() -> None:
        with Path(f"{path}.in").open() as asked, Path(f"{path}.out").open("w") as told:
            for _ in range(lines):
                for answer in answers(asked.readline()):
                    print(answer, file=told, flush=True)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def qemu(line: str) -> Iterator[str]:
    request = json.loads(line)
    match request["execute"]:
        case "qmp_capabilities":
            # What somebody else, who was killed, did not read to its end.
            yield '": 1}'
            yield '{"QMP": {}}'
            yield json.dumps({"error": {"desc": "done before"}, "id": request["id"]})
        case "device_del":
            yield json.dumps({"event": "DEVICE_DELETED", "data": {"path": "/x"}})
            yield json.dumps({"event": "DEVICE_DELETED", "data": {"device": "image"}})
            yield json.dumps({"return": {}, "id": request["id"]})
        case "block-commit":
            yield json.dumps({"return": {}, "id": request["id"]})
            yield json.dumps({"event": "RESUME"})
            yield json.dumps({"event": "BLOCK_JOB_READY"})
        case "block-job-cancel":
            yield json.dumps({"event": "BLOCK_JOB_COMPLETED"})
            yield json.dumps({"return": {}, "id": request["id"]})
        case "human-monitor-command":
            yield json.dumps({"return": "no room\r\n", "id": request["id"]})
        case command:
            assert request["arguments"] == {"node-name": "image"}
            yield json.dumps({"error": {"desc": f"no {command}"}, "id": request["id"]})


def test_monitor(path: Path) -> None:
    thread = other_end(path, qemu, 3)
    monitor = Monitor(Port(path, lambda: True), Pace())
    with pytest.raises(LabError, match="QEMU refuses blockdev-del: no blockdev-del"):
        monitor.execute("blockdev-del", node_name="image")
    monitor.execute("device_del")
    monitor.wait_deleted("image")
    thread.join()
    monitor.close()


def test_an_event_is_waited_for(path: Path) -> None:
    """Behind the answer, or before it; what QEMU told of earlier commands is none of it."""
    port = Port(path, lambda: True)
    thread = other_end(path, qemu, 4)
    monitor = Monitor(port, Pace())
    with Path(f"{path}.out").open("w") as early:
        print(json.dumps({"event": "BLOCK_JOB_READY"}), file=early, flush=True)
    monitor.execute("block-commit", until="BLOCK_JOB_READY")
    assert port.try_line(0) is None
    monitor.execute("block-job-cancel", until="BLOCK_JOB_COMPLETED")
    with pytest.raises(LabError, match=r"QEMU says to human-monitor-command: no room$"):
        monitor.execute("human-monitor-command", command_line="savevm now")
    thread.join()
    monitor.close()


class Machine(RunningMachine):
    """Its shell has number 7."""

    def __init__(self, directory: Path) -> None:
        super().__init__("local", directory, process(1))
        self.commands: list[str] = []

    def command(self, command: str, limit_s: float = 0) -> str:
        self.commands.append(command)
        return "7\n"


def recorder(line: str) -> Iterator[str]:
    yield {"clock\n": "clock 5", "go\n": "exit 0\ndone 0\nend 0"}[line]


def ended(session: LabSession) -> str | None:
    return None if session.alive else session.why


def test_session(tmp_path: Path) -> None:
    make_port(tmp_path / "recorder")
    machine = Machine(tmp_path)
    told = Port(tmp_path / "recorder", lambda: True)
    with Path(f"{tmp_path}/recorder.out").open("w") as early:
        # The first two are of an earlier one.
        print("done 0\nend 0\nbegin 9 7\nready 9", file=early, flush=True)
        session = LabTransport(machine).start(["/run/recorder", "-o", "a b"])
    assert "/run/recorder --status-fd 3 --control-fd 4 -o" in machine.commands[0]
    assert session.lines(5) == ["ready 9"]
    assert session.lines(0) == []
    assert ended(session) is None
    thread = other_end(tmp_path / "recorder", recorder, 2)
    session.ask("clock")
    assert session.lines(5) == ["clock 5"]
    session.ask("go")
    thread.join()
    assert session.lines(5) == ["exit 0", "done 0"]
    assert ended(session) == ""
    session.close()
    told.close()


def test_a_recorder_that_was_killed(tmp_path: Path) -> None:
    make_port(tmp_path / "recorder")
    told = Port(tmp_path / "recorder", lambda: True)
    with Path(f"{tmp_path}/recorder.out").open("w") as early:
        print("begin 9 7\nend 137", file=early, flush=True)
        session = LabTransport(Machine(tmp_path)).start(["/run/recorder"])
    assert session.lines(5) == []
    assert ended(session) == "it was killed by signal 9"
    session.close()
    told.close()


def test_a_machine_without_ports(tmp_path: Path) -> None:
    with pytest.raises(RecorderError, match="it has no port recorder"):
        LabTransport(Machine(tmp_path)).start(["/run/recorder"])
