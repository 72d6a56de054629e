# SPDX-License-Identifier: Apache-2.0
"""replay and dump: one recording, every report, the same bytes each time."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iostrata.cli import status_of
from iostrata.recording import RecordedMachine, open_recording, write_recording_json
from tests.builder import TraceBuilder
from tests.cli.recordings import (
    PAUSE_NS,
    WRITES,
    lossy_recording,
    skipped_recording,
    small_recording,
    small_world,
)
from tests.synthetic import write

RECORDINGS = Path(__file__).parents[1] / "recordings"


@pytest.fixture
def recording(tmp_path: Path) -> str:
    return str(small_recording(tmp_path / "machine"))


def test_table(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["replay", recording]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith(f"{2 * WRITES} synchronous writes")
    for row in ("total", "  device.data", "  device.flush", "unattributed", "us, by method"):
        assert f"\n{row}" in captured.out


def test_a_machine_whose_trace_is_not_here_is_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its part is missing from a table that looks whole."""
    small_recording(tmp_path / "db")
    machine, absent = (RecordedMachine(name, "local", name) for name in ("db", "nas"))
    write_recording_json(tmp_path, (machine,), created="", absent=(absent,))
    assert status_of(["replay", str(tmp_path)]) == 7
    assert (
        "\ndamage      nas: its trace is not here: it was not fetched\n" in capsys.readouterr().out
    )


@pytest.mark.parametrize("name", ["asynchronous", "ext4_journal", "four_methods"])
def test_what_knows_masked_arrays_is_not_loaded(name: str) -> None:
    """NumPy's isin, median and some others do, which takes a quarter of a short analysis."""
    program = (
        "import sys; from iostrata.cli import status_of; status = status_of(sys.argv[1:]);"
        "sys.exit(status or 'numpy.ma' in sys.modules)"
    )
    command = [sys.executable, "-c", program, "replay", str(RECORDINGS / name)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def test_the_same_bytes_each_time(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["replay", recording], ["replay", recording, "--json", "-"]):
        outputs = set()
        for _ in range(2):
            assert status_of(arguments) == 0
            outputs.add(capsys.readouterr().out)
        assert len(outputs) == 1


@pytest.mark.parametrize("by", ["method", "size", "process", "file_system", "device"])
def test_json_by(by: str, recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["replay", recording, "--by", by, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "iostrata.breakdown/1"
    assert document["grouped_by"] == by
    assert sum(group["writes"] for group in document["groups"]) == 2 * WRITES
    assert document["writes"] == {"analysed": 2 * WRITES, "left_out": {}}


def test_files_and_the_table(
    recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = tmp_path / "a.json", tmp_path / "a.csv"
    assert status_of(["replay", recording, "--json", str(paths[0]), "--csv", str(paths[1])]) == 0
    assert "unattributed" in capsys.readouterr().out
    assert json.loads(paths[0].read_text())["writes"]["analysed"] == 2 * WRITES
    rows = list(csv.DictReader(io.StringIO(paths[1].read_text())))
    assert [row["layer"] for row in rows if row["group"] == "all"][-1] == "unattributed"


def test_losses_have_a_status_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = lossy_recording(tmp_path / "machine")
    assert status_of(["replay", str(recording)]) == 7
    out = capsys.readouterr().out
    assert "block_rq_issue (3)" in out
    assert "left out" in out
    assert status_of(["dump", str(recording)]) == 7
    assert "3 events lost" in capsys.readouterr().err


def test_where_no_write_is_left_what_is_missing_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its filter, which is what is advised to be checked, may have been right."""
    builder = TraceBuilder().add("thread", time_ns=10, tid=5)
    builder.add("loss", time_ns=95, cpu=0, lost_point=1, lost_count=6)
    trace = builder.write(tmp_path / "trace")
    assert status_of(["replay", str(trace)]) == 5
    told = capsys.readouterr().err
    assert "holds no synchronous write: 6 events of local:syscall were lost\n" in told
    assert "  try: record again, with a larger --buffer\n" in told
    (trace / "recorder").unlink()
    assert status_of(["replay", str(trace)]) == 5
    assert "holds no synchronous write: recorder: missing or empty" in capsys.readouterr().err


def test_where_there_was_no_room_no_copy_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """20,000 threads at once: what worked for them was lost, and so all that they wrote."""
    world = small_world()
    world.builder.packet_events = 10_000
    world.builder.refuse("thread", time_ns=PAUSE_NS)
    world.builder.add("full", time_ns=PAUSE_NS, table=0, refused_count=3, last=78)
    recording = write(world, tmp_path / "machine")
    assert status_of(["replay", str(recording)]) == 5
    told = " ".join(capsys.readouterr().err.split())
    assert f"left out: events lost meanwhile ({2 * WRITES}); no room for some threads" in told
    assert told.endswith("try: record fewer at once: --comm, --pid, --cgroup or --device choose")


def test_what_the_kernel_skipped_a_program_for_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = str(skipped_recording(tmp_path / "machine"))
    assert status_of(["replay", "--json", "-", recording]) == 7
    document = json.loads(capsys.readouterr().out)
    writes = document["writes"]
    assert document["quality"]["lost"] == {"local:program:block_rq_issue": 2}
    assert 0 < sum(writes["left_out"].values()) < 2 * WRITES
    assert writes["analysed"] + sum(writes["left_out"].values()) == 2 * WRITES
    assert status_of(["dump", recording]) == 7


def test_dump(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["dump", recording, "--point", "block_rq_issue", "--limit", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(" block_rq_issue " in line for line in lines)
    assert status_of(["dump", recording, "--point", "nonsense"]) == 2
    most = ["--limit", "9" * 30]
    assert status_of(["dump", recording, *most]) == status_of(["dump", recording]) == 0


@pytest.mark.parametrize("tid", ["9" * 20, "4294967295", "999999"])
def test_a_thread_that_nothing_is_of_is_an_error(
    recording: str, tid: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """One of which there is something is none, whatever else is asked for."""
    (trace,) = open_recording(Path(recording)).traces()
    known = str(trace.points["syscall"]["tid"][0])
    assert status_of(["dump", recording, "--tid", known]) == 0
    assert status_of(["dump", recording, "--tid", known, "--point", "rpc_call"]) == 0
    capfd.readouterr()
    assert status_of(["dump", recording, "--tid", known, "--tid", tid]) == 2
    told = capfd.readouterr()
    assert not told.out
    assert f"no event is of thread {tid}" in told.err


def test_a_reader_that_goes_away(recording: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "iostrata", "dump", recording],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141


def test_standard_output_is_full(recording: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "iostrata", "replay", recording],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("iostrata: standard output: No space left on device\n  try: ")


@pytest.mark.parametrize(
    ("disk", "driver"),
    [("vda", "virtio"), ("xvdb", "Xen"), ("sda", ""), ("nvme0n1", ""), ("svda", "")],
)
def test_a_disk_that_a_machine_serves(
    disk: str, driver: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = small_recording(tmp_path / "machine", disk)
    assert status_of(["replay", str(recording), "--json", "-"]) == 0
    told = [f"{disk} is a {driver} disk: what a hypervisor takes is in device"]
    quality = json.loads(capsys.readouterr().out)["quality"]
    assert quality.get("virtual") == (told if driver else None)


def test_a_disk_whose_host_was_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["replay", str(RECORDINGS / "kvm_nfs")]) == 0
    assert "virtio disk" not in capsys.readouterr().out


def test_an_empty_stream_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(RECORDINGS / "four_methods", copy)
    (copy / "local" / "cpu_1").write_bytes(b"")
    assert status_of(["replay", str(copy)]) == 5
    error = capsys.readouterr().err
    assert "events that the recorder counted are missing: 9870" in error
    assert "\n  try: copy the recording anew" in error


def test_tail_when_asked_for(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["replay", recording]) == 0
    assert "leads" not in capsys.readouterr().out
    assert status_of(["replay", recording, "--tail"]) == 0
    assert "fdatasync: the slowest 1 of 20 writes" in capsys.readouterr().out
    assert status_of(["replay", recording, "--json", "-"]) == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    assert [group["tail"]["slow"]["writes"] for group in groups] == [1, 1]
