# SPDX-License-Identifier: Apache-2.0
"""--from, --to, --process, --file, --slower-than: of every command that reads a recording."""

from __future__ import annotations

import csv
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from iostrata.cli import status_of
from tests.cli.recordings import small_recording
from tests.report.test_golden import RECORDINGS

FOUR = str(RECORDINGS / "four_methods")


def replayed(capsys: pytest.CaptureFixture[str], *filters: str) -> dict[str, object]:
    assert status_of(["replay", FOUR, "--json", "-", *filters]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["replay", FOUR, "--slower-than", "500us"]) == 0
    out = capsys.readouterr().out
    head = re.match(r"(\d+) synchronous writes by fio \(7405\)", out)
    assert head
    assert f"\nselected    {head[1]} of 800 writes: slower than 500 us; " in out
    assert "\nanalysed    800 of 800 writes" in out
    found = replayed(capsys, "--slower-than", "500us")
    assert found["writes"] == {"analysed": int(head[1]), "left_out": {}}
    quality = found["quality"]
    assert isinstance(quality, dict)
    assert quality["selection"] == {"of": 800, "by": ["slower than 500 us"]}
    assert "selection" not in (replayed(capsys)["quality"] or ())  # type: ignore[operator]


def test_the_parts_are_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    def count(*filters: str) -> int:
        writes = replayed(capsys, *filters)["writes"]
        assert isinstance(writes, dict)
        return int(writes["analysed"])

    assert count("--to", "200ms") + count("--from", "0.2s") == 800
    assert count("--process", "fio") == count("--process=7405") == 800


def test_timelines_keep_their_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["timeline", FOUR, "--slowest", "1", "--json", "-"]) == 0
    (slowest,) = json.loads(capsys.readouterr().out)["writes"]
    latency_us = slowest["latency_ns"] // 1000
    words = ["timeline", FOUR, "--slower-than", f"{latency_us}us", "--json", "-", "--near", "p1"]
    assert status_of(words) == 0
    (only,) = json.loads(capsys.readouterr().out)["writes"]
    assert (only["id"], only["of"]) == (slowest["id"], 800)


def test_exports(tmp_path: Path) -> None:
    def rows(name: str, *filters: str) -> list[list[str]]:
        assert status_of(["export", FOUR, "--csv", str(tmp_path / name), "-q", *filters]) == 0
        with (tmp_path / name).open() as file:
            return list(csv.reader(file))

    head, *whole = rows("all.csv")
    latency = head.index("latency_ns")
    assert rows("some.csv", "--slower-than", "500us") == [
        head, *(row for row in whole if int(row[latency]) > 500_000)
    ]  # fmt: skip


def test_exported_spans_and_slices(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("perfetto")
    files = {name: str(tmp_path / name) for name in ("writes", "spans", "trace", "less")}
    words = ["export", FOUR, "-q", "--slower-than", "900us"]
    assert status_of([*words, "--parquet", files["writes"], "--spans", files["spans"],
                      "--perfetto", files["trace"]]) == 0  # fmt: skip
    ids = parquet.read_table(files["writes"])["id"].to_pylist()
    spans = parquet.read_table(files["spans"]).to_pydict()
    assert sorted(set(spans["write"])) == ids
    assert 0 < len(ids) < 100
    words = [*words, "--perfetto", files["less"], "--writes", f"{ids[1]}:{ids[2]}"]
    assert status_of(words) == 0
    assert Path(files["less"]).stat().st_size < Path(files["trace"]).stat().st_size / 2


def test_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert status_of(["html", FOUR, "-q", "-o", str(page), "--process", "fio", "--to", "1h"]) == 0
    assert "800 of 800 writes: before 3600 s, of process fio" in page.read_text()


def test_compare(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", FOUR, FOUR, "--slower-than", "500us", "--json", "-"]
    assert status_of(words) == 0
    document = json.loads(capsys.readouterr().out)
    (group,) = document["groups"]
    assert 0 < group["writes_a"] == group["writes_b"] < 400
    assert document["selected"] == ["slower than 500 us"]
    assert status_of(["compare", FOUR, FOUR, "--slower-than", "500us"]) == 0
    assert "\nselected    only writes slower than 500 us\n" in capsys.readouterr().out
    assert status_of(["compare", FOUR, FOUR]) == 0
    assert "\nselected" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        (["--from", "5"], "--from 5: no time"),
        (["--to", "-5s"], "--to -5s: no time"),
        (["--slower-than", "1 day"], "--slower-than 1 day: no time"),
        (["--from", "2s", "--to", "1s"], "nothing is between"),
    ],
)
def test_what_makes_no_sense(
    filters: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["replay", FOUR, *filters]) == 2
    assert told in capsys.readouterr().err


def test_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = str(small_recording(tmp_path / "recording"))
    for command in (["replay", recording], ["timeline", recording]):
        assert status_of([*command, "--process", "nobody", "--file", "vdb:1"]) == 5
        err = capsys.readouterr().err
        assert "none of the 40 writes is of process nobody, to file vdb:1" in err
    assert status_of(["replay", recording, "--file", "vda:12", "--process", "writer"]) == 0


def test_times_of_day(capsys: pytest.CaptureFixture[str]) -> None:
    """By the clock of the machine, in UTC; the same as by the time since the first write."""
    assert status_of(["timeline", FOUR, "--id", "1", "--json", "-"]) == 0
    (first,) = json.loads(capsys.readouterr().out)["writes"]
    begin = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=first["realtime_ns"] // 1000)
    later = begin + timedelta(milliseconds=200)
    expected = replayed(capsys, "--from", "200ms")["writes"]
    of_day = f"{later:%H:%M:%S.%f}"
    assert replayed(capsys, "--from", of_day)["writes"] == expected
    for text in (f"{later:%Y-%m-%dT%H:%M:%S.%f}Z", later.isoformat()):
        found = replayed(capsys, "--from", text)
        assert found["writes"] == expected
        assert found["quality"]["selection"]["by"] == [f"from {text}"]  # type: ignore[index]
    for wrong in ("25:00", "2026-02-30T10:00", "10:00:61", "soon"):
        assert status_of(["replay", FOUR, "--from", wrong]) == 2
        assert f"--from {wrong}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("filters", "hint"),
    [
        (["--file", "["], "--by file"),
        (["--process", "nobody"], "--by process"),
        (["--slower-than", "1h"], "iostrata timeline DIR"),
    ],
)
def test_what_is_hinted_at_is_what_was_asked_for(
    filters: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["replay", FOUR, *filters]) == 5
    told = capsys.readouterr().err.splitlines()
    assert told[1].endswith(hint)
    assert "--by" not in told[1].removesuffix(hint)


def test_from_where_the_selected_reads_were_is_not_said_of_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reads = str(Path(FOUR).parents[1] / "recordings_of_reads" / "ext4")
    assert status_of(["replay", reads, "--op", "read", "--slower-than", "2ms"]) == 0
    told, of_all = capsys.readouterr().out.split("; what follows is of all\n")
    (served,) = re.findall(r"\nserved from (.*(?:\n  .*)*)\nselected    (\d+) of 127 reads", told)
    assert sum(map(int, re.findall(r"\((\d+),", served[0]))) == int(served[1]) < 127
    assert "served from" not in of_all
