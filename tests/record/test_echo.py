# SPDX-License-Identifier: Apache-2.0
"""Echoes: answered by this machine, not answered, refused; and the fact that they become."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from iostrata.record import echo
from iostrata.record.echo import Echoes, checksum_of, is_reply, request, servers, write_echoes
from iostrata.trace.echo import Echo
from iostrata.trace.fact_files import read_facts


def sent(address: str) -> int | None:
    try:
        return echo.round_trip(address, 7)
    except PermissionError:
        pytest.skip("no right to send an echo (root, or CAP_NET_RAW)")
    except OSError as error:
        pytest.skip(f"no {address}: {error}")


@pytest.mark.root
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_this_machine_answers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it takes to make the packet, which is more than such a way, is not in its time."""
    order: list[str] = []

    def made(version: int, mark: tuple[int, int]) -> bytes:
        order.append("made")
        return request(version, mark)

    class Clock:
        monotonic = staticmethod(time.monotonic)

        @staticmethod
        def time_ns() -> int:
            order.append("timed")
            return time.time_ns()

    monkeypatch.setattr(echo, "request", made)
    monkeypatch.setattr(echo, "time", Clock)
    begin = time.monotonic_ns()
    found = sent(address)
    assert found
    assert 0 < found < time.monotonic_ns() - begin
    assert order == ["made", "timed"]


def test_a_request_and_its_reply() -> None:
    """Checksums as RFC 1071 has them: a packet that holds its own adds up to nothing."""
    packet = request(4, (3, 7))
    assert len(packet) == 8 + 8192
    assert checksum_of(packet) == 0
    header = bytes([0x45, *[0] * 19])
    reply = b"\0" + packet[1:]
    assert is_reply(4, header + reply, (3, 7))
    assert not is_reply(4, header + packet, (3, 7))
    assert not is_reply(4, header + reply, (3, 8))
    assert not is_reply(4, header + reply[:7], (3, 7))
    assert is_reply(6, bytes([129]) + request(6, (3, 7))[1:], (3, 7))


def test_each_server_is_asked_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, enough = [], threading.Event()

    def answer(address: str, number: int) -> int | None:
        asked.append((address, number))
        if len(asked) >= 6:
            enough.set()
        if address == "192.0.2.7":
            raise PermissionError(1, "Operation not permitted")
        return 250_000 if address == "192.0.2.5" else None

    monkeypatch.setattr(echo, "round_trip", answer)
    with Echoes(lambda: ["192.0.2.5", "192.0.2.6", "192.0.2.7"], every_s=0.001) as echoes:
        assert enough.wait(10)
    assert [number for _, number in asked] == list(range(1, len(asked) + 1))
    found = {(one.address, one.round_trip_ns) for one in echoes.found}
    assert found == {("192.0.2.5", 250_000), ("192.0.2.6", None)}
    assert echoes.refusal == "192.0.2.7: [Errno 1] Operation not permitted"
    count = len(asked)
    time.sleep(0.01)
    assert len(asked) == count


def test_servers_are_those_of_the_mounts(tmp_path: Path) -> None:
    mounts = (
        "30 1 0:44 / /mnt/a rw - nfs4 nas:/a rw,proto=tcp,addr=192.0.2.5",
        "31 1 0:45 / /mnt/b rw - nfs4 nas:/b rw,proto=tcp,addr=192.0.2.5",
        "32 1 8:1 / / rw - ext4 /dev/sda1 rw",
    )
    (tmp_path / "mountinfo").write_text("\n".join(mounts))
    assert servers(tmp_path / "mountinfo") == ["192.0.2.5"]


def test_the_fact(tmp_path: Path) -> None:
    echoes = (Echo("192.0.2.5", 1_000, 250_000), Echo("2001:db8::1", 2_000, None))
    write_echoes(tmp_path, echoes)
    facts, defects = read_facts(tmp_path / "facts")
    assert (facts.echoes, defects) == (echoes, [])
    with (tmp_path / "facts" / "echoes").open("a") as file:
        file.write("192.0.2.5\tsoon\n")
    facts, defects = read_facts(tmp_path / "facts")
    assert facts.echoes == echoes
    assert defects == ["facts/echoes: line 4 is no echo"]
