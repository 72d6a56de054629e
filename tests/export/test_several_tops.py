# SPDX-License-Identifier: Apache-2.0
"""Three clients of a server, all of which write: what is exported, drawn and listed of each."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from iostrata.cli import status_of
from tests.network import Call, Disk, Machine, recorded

WRITES = 4
AHEAD_NS = 10**12
"""Of each client's clock, before the one's before it."""
DEVICE_NS = 30_000


def client(number: int) -> Machine:
    ahead = number * AHEAD_NS
    return Machine(f"c{number}", clock=lambda ns: ns + ahead, port=700 + 20 * number)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of each client the disk takes as much longer as its number says."""
    server, clients = Machine("server", role="server"), [client(number) for number in range(3)]
    for number, one in enumerate(clients):
        at = 1_000_000 + number * 50_000
        for _ in range(WRITES):
            disk = Disk(device=DEVICE_NS * (1 + number))
            at = one.write(100 + number, at, [Call(server, [disk])]) + 20_000
    return recorded(tmp_path_factory.mktemp("tops") / "recording", *clients, server)


def test_rows_of_every_top_come_before_what_is_below(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["replay", str(recording)]) == 0
    shown = capsys.readouterr().out
    places = [shown.index(f"\n{title} ") for title in ("OS of c0", "OS of c1", "OS of c2")]
    assert places == sorted(places)
    assert max(places) < shown.index("\nnetwork ") < shown.index("\nserver OS ")


def test_a_timeline_says_whose_write_it_is(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The slowest one's device is the last client's; what is first in time is the first one's."""
    assert status_of(["timeline", str(recording), "--slowest", "1"]) == 0
    assert "writer (102) of c2" in capsys.readouterr().out
    assert status_of(["timeline", str(recording), "--slowest", "1", "--json", "-"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["writes"]
    assert one["machine"] == "c2"
    assert {layer["machine"] for layer in one["layers"]} == {"c2", "server"}
    assert sum(layer["time_ns"] for layer in one["layers"]) == one["latency_ns"]


def test_csv_has_each_client_by_its_own_clock(recording: Path, tmp_path: Path) -> None:
    path = tmp_path / "writes.csv"
    assert status_of(["export", str(recording), "--csv", str(path)]) == 0
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["machine"] for row in rows] == [f"c{n}" for n in range(3) for _ in range(WRITES)]
    for row in rows:
        number = int(row["machine"][1])
        assert int(row["begin_ns"]) // AHEAD_NS == number
        assert int(row["server_device_data_ns"]) == DEVICE_NS * (1 + number)
        others = [name for name in row if name[0] == "c" and name[1:2] not in ("", str(number))]
        assert not any(int(row[name]) for name in others if name[1:2].isdigit())


def test_parquet_has_spans_of_each(recording: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "writes.parquet"
    assert status_of(["export", str(recording), "--parquet", str(path)]) == 0
    table = parquet.read_table(path)
    assert table.column("machine").to_pylist().count("c1") == WRITES
    assert table.column("server_device_data_ns").to_pylist()[-1] == 3 * DEVICE_NS


def test_page_and_perfetto_are_made(recording: Path, tmp_path: Path) -> None:
    page, trace = tmp_path / "page.html", tmp_path / "trace.pftrace"
    assert status_of(["html", str(recording), "-o", str(page)]) == 0
    assert "OS of c2" in page.read_text()
    assert status_of(["export", str(recording), "--perfetto", str(trace)]) == 0
    assert trace.stat().st_size
