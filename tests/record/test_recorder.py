# SPDX-License-Identifier: Apache-2.0
"""The recorder's protocol: its lines, its end, its failures, and the signals that reach it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iostrata.errors import (
    CommandNotExecutable,
    CommandNotFound,
    IostrataError,
    PermissionDenied,
    RecorderError,
)
from iostrata.record import Outcome, Progress, Request, Target, record, recorder
from tests.record.recorders import install


class Heard:
    def __init__(self) -> None:
        self.words: list[object] = []

    def ready(self) -> None:
        self.words.append("ready")

    def progress(self, progress: Progress) -> None:
        self.words.append(progress)


def run(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *command: str
) -> tuple[Outcome, list[object]]:
    install(script, tmp_path, monkeypatch)
    heard = Heard()
    return record(Request(tmp_path / "out", command), heard), heard.words


def test_a_good_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = 'tell ready; "$@"; s=$?; tell progress 12 1 0.5; tell exit $s; exit $s'
    outcome, heard = run(script, tmp_path, monkeypatch, "sh", "-c", "exit 3")
    assert outcome == Outcome(3, 0, Progress(12, 1, 0.5))
    assert heard == ["ready", Progress(12, 1, 0.5)]


def test_without_a_command_there_is_no_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, _ = run("tell ready", tmp_path, monkeypatch)
    assert outcome.exit_status is None


@pytest.mark.parametrize(
    ("script", "kind", "text"),
    [
        ("tell failed out of luck; exit 125", RecorderError, "out of luck"),
        ("tell failed bpf: Operation not permitted; exit 125", PermissionDenied, "not permitted"),
        ("tell failed sh: command not found; exit 127", CommandNotFound, "sh: command not found"),
        ("tell failed sh: Permission denied; exit 126", CommandNotExecutable, "sh: "),
        ("kill -KILL $$", RecorderError, "killed (SIGKILL)"),
        ("kill -40 $$", RecorderError, "killed (signal 40)"),
        ("exit 125", RecorderError, "status 125"),
    ],
)
def test_failures(
    script: str,
    kind: type[IostrataError],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(kind) as caught:
        run(script, tmp_path, monkeypatch, "sh")
    assert text in str(caught.value)


def test_lines_may_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = 'printf "rea" >&$status; sleep 0.1; printf "dy\\nprogress 1 0 2\\n" >&$status'
    _, heard = run(script, tmp_path, monkeypatch)
    assert heard == ["ready", Progress(1, 0, 2.0)]


def test_a_signal_to_us_ends_the_recorder_first(tmp_path: Path) -> None:
    script = tmp_path / "recorder"
    script.write_text(
        f"#!{sys.executable}\n"
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "os.write(int(sys.argv[sys.argv.index('--status-fd') + 1]), b'ready 1\\n')\n"
        "Path('started').touch()\n"
        "signal.sigwait([signal.SIGTERM])\n"
        "Path('closed').touch()\n"
    )
    script.chmod(0o755)
    program = (
        "from pathlib import Path\n"
        "from iostrata.record import Request, record, recorder\n"
        "from iostrata.cli.story import Story\n"
        "recorder.PACKAGED = Path('recorder').absolute()\n"
        "print(record(Request(Path('out')), Story()).interrupted_by, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        while not (tmp_path / "started").exists():
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert out == f"{int(signal.SIGTERM)}\n"
    assert (tmp_path / "closed").exists()


STOPPED = "trap : HUP; tell ready; {}; kill -STOP $$; tell progress 1 0 2.0; exit 0"


def test_a_recorder_that_was_stopped_goes_on_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, _ = run(STOPPED.format("kill -HUP $PPID"), tmp_path, monkeypatch)
    assert outcome == Outcome(None, signal.SIGHUP, Progress(1, 0, 2.0))


def test_a_recorder_that_was_stopped_ends_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PATIENCE_S", 0.1)
    install(STOPPED.format(":"), tmp_path, monkeypatch)
    outcome = record(Request(tmp_path / "out", duration_s=0.2), Heard())
    assert outcome == Outcome(None, 0, Progress(1, 0, 2.0))


def test_a_recorder_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "END_LIMIT_S", 0.3)
    script = 'trap "" TERM; tell ready; kill -TERM $PPID; while :; do sleep 0.1; done'
    with pytest.raises(RecorderError, match=r"did not end within 0.3 s .* was killed"):
        run(script, tmp_path, monkeypatch)


def test_arguments() -> None:
    target = Target((1, 2), ("db",), ("/system.slice",), ("/dev/vda",), True)
    request = Request(
        Path("d"), ("cmd", "-x"), target, detail=True, compress=True, stats=True, duration_s=1.5,
        buffer_kib=64,
    )  # fmt: skip
    assert " ".join(recorder.arguments(request)) == (
        "-o d --pid 1 --pid 2 --comm db --cgroup /system.slice"
        " --device /dev/vda --all --detail --compress --stats --buffer 64 --duration 1.5 -- cmd -x"
    )


def test_no_recorder_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "PACKAGED", tmp_path / "none")
    monkeypatch.setattr(recorder, "BUILT", tmp_path / "none")
    with pytest.raises(RecorderError, match="the recorder is missing"):
        record(Request(tmp_path / "out"), Heard())
