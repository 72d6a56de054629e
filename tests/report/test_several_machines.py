# SPDX-License-Identifier: Apache-2.0
"""Guest, host and server in one report; goldens as in ``test_golden``."""

from __future__ import annotations

import json as documents
from pathlib import Path

import pytest

from iostrata.analysis import analyse, timelines
from iostrata.attribute.choice import Choice
from iostrata.attribute.compare import compare
from iostrata.attribute.run import run_of
from iostrata.attribute.summarise import summarise
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.report import comparison, comparison_json, csv, json, table, timeline_json
from tests.chain import GUEST_DISK, Chain, Costs
from tests.report.test_golden import golden
from tests.synthetic import O_DSYNC, Request, Writer

WRITES = 40
COSTS = Costs(vmm=51_000, there=65_000, back=65_000)


def costs(number: int, device_ns: int) -> Costs:
    """As long there as back, so that the clocks are known as they are."""
    disk = Request(queue=400, scheduler=None, device=device_ns, sector=9000 + 16 * number)
    return Costs(vmm=51_000 + 100 * number, there=65_000, back=65_000, disk=disk)


def recording(path: Path, machines: str = "guest host server", device_ns: int = 30_000) -> Path:
    """Two processes of the guest; the clocks of the machines are far apart."""
    clocks = (lambda ns: ns + 5_000_000, lambda ns: ns + 3_600_000_000, int)
    chain = Chain(clocks)
    first, second = chain.writer(), Writer(chain.guest, 401, GUEST_DISK, 500_000_000)
    chain.guest.target(401, 2, comm=b"other")
    for number in range(WRITES):
        writer = first if number % 4 else second
        writer.now = max(first.now, second.now)
        chain.durable_write(writer, number * 8192, costs(number, device_ns + 1_000 * number))
    path.mkdir()
    return chain.recording(path, machines)


def analysed(path: Path, machines: str = "guest host server") -> Breakdown:
    return analyse(open_recording(recording(path, machines)))


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Breakdown:
    return analysed(tmp_path_factory.mktemp("chain") / "recording")


def fits(text: str, width: int) -> str:
    assert max(map(len, text.splitlines())) <= width
    assert not any(line.endswith(" ") for line in text.splitlines())
    return text


@pytest.mark.parametrize("width", [40, 80])
def test_table(chain: Breakdown, width: int) -> None:
    """Everything below the headline: the table, the groups, the tail and the quality."""
    summary = summarise(chain, "process")
    text = table.render(summary, width, with_tail=True).plain
    golden(f"several_machines.{width}.txt", fits(text, width))


def test_json_and_csv(chain: Breakdown) -> None:
    summary = summarise(chain)
    golden("several_machines.json", json.render(summary))
    golden("several_machines.csv", csv.render(summary))


@pytest.mark.parametrize("machines", ["guest", "guest host"])
def test_what_was_not_recorded_is_named_whole(machines: str, tmp_path: Path) -> None:
    summary = summarise(analysed(tmp_path / "recording", machines), "process")
    text = fits(table.render(summary, 80, with_tail=True).plain, 80)
    segment = {"guest": "hypervisor and below", "guest host": "network and server"}[machines]
    # In the table, in the matrix, and in the tail of each of the two processes.
    assert text.count(f"\n{segment} ") + text.count(f"\n{segment}\n") >= 3


def test_a_guest_has_no_device_of_its_own(tmp_path: Path) -> None:
    """What the guest reads is not followed: its time is no device's."""
    chain = Chain()
    writer = chain.writer()
    for number in range(10):
        writer.enter()
        queued, place = (
            writer.now,
            {"dev": writer.disk, "sector": 7, "size_bytes": 4096, "flags": 0},
        )
        keys = {"request_key": 0xFFFF_8889_0000_0000, "bio_key": 0xFFFF_8889_0000_0100}
        chain.guest.emit("block_bio_queue", queued, writer.tid, bio_key=keys["bio_key"], **place)
        chain.guest.emit("block_rq_issue", queued + 100, writer.tid, **keys, **place)
        chain.guest.emit("block_rq_complete", queued + 50_000, 0, **keys, **place)
        writer._wait(50_000, 1_000, 2_000)
        chain.data(writer, number * 8192, COSTS)
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.now += 10_000
    (tmp_path / "recording").mkdir()
    found = analyse(open_recording(chain.recording(tmp_path / "recording")))
    segments = {row.segment: row.figures.mean_ns for row in summarise(found).overall.segments}
    assert segments["hypervisor and below"] == 49_900
    assert segments["device"] == COSTS.disk.device


def test_programs_are_told_the_segments(tmp_path: Path) -> None:
    """A guest's own disk is not what its row's name alone says."""
    guest = open_recording(recording(tmp_path / "recording", "guest"))
    run = run_of(analyse(guest))
    compared = compare([run], [run])
    seen = timelines(guest, Choice(numbers=(1,)))
    rows = [
        *documents.loads(comparison_json.render(compared))["groups"][0]["layers"],
        *documents.loads(timeline_json.render(seen.timelines, seen.quality))["writes"][0]["steps"],
    ]
    segments = {row["segment"] for row in rows if row["layer"] == "device.data"}
    assert segments == {"hypervisor and below"}


def test_comparison(tmp_path: Path) -> None:
    a, b = (
        run_of(analyse(open_recording(recording(tmp_path / name, device_ns=device_ns))))
        for name, device_ns in (("a", 30_000), ("b", 90_000))
    )
    found = compare([a] * 5, [b] * 5, limit=0.1)
    text = comparison.plain(found, comparison.Names(["before"], ["after"]))
    golden("several_machines.comparison.txt", fits(text, 80))
