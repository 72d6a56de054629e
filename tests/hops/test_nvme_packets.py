# SPDX-License-Identifier: Apache-2.0
"""A guest's disk by NVMe over TCP, and the host that carries its packets, with known truth."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from iostrata.model import Breakdown
from tests.carrier import PARTS, goes, parts_of
from tests.fabric import Connection, Costs, Initiator, Machine, Target, found_in, met
from tests.hops.test_carried import NEAR_THE_END, along
from tests.hops.test_nvme_tcp import drawn
from tests.stitch.test_truth import accounts
from tests.synthetic import Writer, clock

COMMAND_BYTES, RESPONSE_BYTES = 8_264, 24


class Carried(Initiator):
    """Each command and each response goes by the host. ``told``: the guest's recorder was asked for
    packets; ``answers``: the target's tells where its responses end."""

    def __init__(self, told: bool = True, answers: bool = True) -> None:
        super().__init__("guest")
        self.host, self.random = Machine("host", clock(5_000_000, 0)), Random(1)
        self.host.world.builder.vmm(300, "guest")
        self.told, self.answers = told, answers
        self.call_end = self.reply_end = NEAR_THE_END
        self.parts: list[int] = []

    def _request(
        self, writer: Writer, to: Connection, costs: Costs, worker: int, *, flush: bool = False,
        again: int = 0, gone: bool = False,
    ) -> None:  # fmt: skip
        sent = writer.now + costs.queue + costs.submit
        super()._request(writer, to, costs, worker, flush=flush, again=again, gone=gone)
        answer = sent + costs.there + costs.served
        self.parts = parts_of(self.random, costs.there)
        there, back = along(sent, self.parts), along(answer, self.parts[::-1])
        place = {"connection": to.wire["connection"], "ends": to.ends}
        way = self.random, (self, self.host, to.target)
        self.call_end += goes(*way, there[1:5], self.call_end, COMMAND_BYTES, 1, place)
        self.reply_end += goes(*way, back[1:5], self.reply_end, RESPONSE_BYTES, 0, place)
        place["xid"] = self.world.builder._rows["nvme_setup_cmd"][-1]["wire_key"]
        if self.told:
            ends = self.call_end % (1 << 32)
            self.world.emit("nvme_stream", sent, 66, sequence=ends, **place)
        if self.answers:
            ends = self.reply_end % (1 << 32)
            to.target.world.emit("nvmet_stream", answer + 1, 67, sequence=ends, **place)

    def _rows(self, costs: Costs, to: Connection, *, flush: bool = False) -> Counter[str]:
        rows = super()._rows(costs, to, flush=flush)
        if self.told and self.answers:
            for way in ("there", "back"):
                rows[f"{to.target.name}/network.{way}"] -= sum(self.parts)
            for part, ns in zip(PARTS, self.parts, strict=True):
                rows[f"{to.target.name}/network.{part}"] += 2 * ns
        return +rows


def written(
    path: Path, *, told: bool = True, answers: bool = True, large: bool = False
) -> tuple[Breakdown, Writer]:
    target, random = Target(clock=clock(3_600_000_000_000, 0)), Random(5)
    guest, to = Carried(told, answers), Connection(target)
    writer = guest.writer()
    for number in range(30):
        costs = drawn(random)
        asked = replace(costs, r2t=400_000)
        guest.write(writer, to, [asked if large and number % 2 else costs], flush=number % 3 == 2)
    return found_in(path, guest, guest.host, target), writer


@pytest.mark.parametrize("large", [False, True])
def test_every_part_of_the_way_is_met(tmp_path: Path, large: bool) -> None:
    """Data that the target asks for (R2T) comes behind the command, which is there before."""
    found, writer = written(tmp_path, large=large)
    for mine, true in met(found, writer.tid, writer):
        assert mine == true
    (line,) = found.quality.connections
    assert line.startswith("guest to target: 40 of 40 calls and replies seen as packets, by host")
    assert found.quality.apart == ()


@pytest.mark.parametrize(
    ("told", "answers", "parts"),
    [(False, True, {"there", "back"}), (True, False, {"client", "wire", "server", "back"})],
)
def test_who_does_not_say_where_its_messages_end_has_no_parts(
    tmp_path: Path, told: bool, answers: bool, parts: set[str]
) -> None:
    """Without the responses nothing ties the host's clock."""
    found, writer = written(tmp_path, told=told, answers=answers)
    rows = {row for account in accounts(found)[writer.tid] for row in account if "network." in row}
    assert rows == {f"target/network.{part}" for part in parts}
