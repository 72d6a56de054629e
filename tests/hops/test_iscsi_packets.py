# SPDX-License-Identifier: Apache-2.0
"""A guest's disk by iSCSI, and the host that carries its packets, with known truth."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from iostrata.model import Breakdown
from tests.carrier import PARTS, goes, parts_of
from tests.hops.test_carried import NEAR_THE_END, along
from tests.iscsi import Costs, Machine, Session, analysed, drawn, truth_of
from tests.stitch.test_truth import accounts
from tests.synthetic import clock

COMMAND_BYTES, RESPONSE_BYTES = 8_240, 48


@dataclass
class Carried(Session):
    """Each command and each response goes by the host. ``told``: the guest's recorder was
    asked for packets."""

    host: Machine = field(default_factory=lambda: Machine("host", clock(5_000_000, 0)))
    random: Random = field(default_factory=lambda: Random(1))
    told: bool = True
    call_end: int = NEAR_THE_END
    reply_end: int = NEAR_THE_END

    def served(
        self, sent: int, itt: int, offset: int, costs: Costs, flush: bool,
        account: Counter[str], answers: bool = True,
    ) -> int:  # fmt: skip
        answer = super().served(sent, itt, offset, costs, flush, account, answers)
        parts = parts_of(self.random, costs.there)
        there, back = along(sent, parts), along(answer, parts[::-1])
        way = self.random, (self.initiator, self.host, self.target)
        self.call_end += goes(*way, there[1:5], self.call_end, COMMAND_BYTES, 1, self.place)
        self.reply_end += goes(*way, back[1:5], self.reply_end, RESPONSE_BYTES, 0, self.place)
        place = {"xid": itt, "sequence": self.call_end % (1 << 32), **self.place}
        if self.told:
            self.initiator.world.emit("iscsi_stream", sent + 100, 66, **place)
        response = self.target.world.builder._rows["target_sent"][-1]
        response["sequence"] = self.reply_end % (1 << 32)
        for part, ns in zip(PARTS, parts, strict=True):
            account[self._row(f"network.{part}")] += 2 * ns
        # Until the target has read what it asks for more behind.
        read = account.pop(self._row("network.there")) - costs.there
        account[self._row("network.server")] += read
        account[self._row("network.back")] -= costs.back
        return answer


Accounts = list[dict[str, int]]


def written(
    path: Path, told: bool = True, large: bool = False
) -> tuple[Accounts, Accounts, Breakdown]:
    """The truth, and what was found."""
    guest, target = Machine("guest"), Machine("target", clock(3_600_000_000_000, 0))
    disk, random = Carried(guest, target, told=told), Random(5)
    disk.host.world.builder.vmm(300, "guest")
    writer = disk.writer()
    for number in range(30):
        costs, flush = drawn(random, large=large and number % 2 > 0), None
        if number % 3 == 2:
            flush = drawn(random)
        disk.write(writer, 8192 * number, costs, flush)
    found = analysed(path, guest, disk.host, target)
    return truth_of(writer, "guest"), accounts(found)[writer.tid], found


@pytest.mark.parametrize("large", [False, True])
def test_every_part_of_the_way_is_met(tmp_path: Path, large: bool) -> None:
    """Data that the target asks for (R2T) comes behind the command, which is there before."""
    truth, account, found = written(tmp_path, large=large)
    assert account == truth
    (line,) = found.quality.connections
    assert line.startswith("guest to target: 40 of 40 calls and replies seen as packets, by host")
    assert found.quality.apart == ()


def test_who_was_not_asked_does_not_say_where_its_commands_end(tmp_path: Path) -> None:
    _, accounts_found, _ = written(tmp_path, told=False)
    rows = {row for account in accounts_found for row in account if "network." in row}
    assert rows == {"target/network.there", "target/network.back"}
