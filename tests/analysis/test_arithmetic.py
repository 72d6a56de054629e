# SPDX-License-Identifier: Apache-2.0
"""The arithmetic beside what was measured: its guesses, their errors, and what it cannot know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from iostrata.analysis import Given, breakdown_of, estimate, prepare
from iostrata.analysis import arithmetic as basis
from iostrata.model import Basis, Estimate, Guess
from iostrata.record.echo import write_echoes
from iostrata.recording import open_recording
from iostrata.report import estimate as report
from iostrata.report import estimate_json
from iostrata.trace.echo import Echo
from tests.chain import CONNECTION, Chain, Costs
from tests.cli.recordings import small_recording
from tests.report.test_golden import golden
from tests.synthetic import Request, World, Writer, device, submit, write

RTT_US = 120
# 192.0.2.5, as an address of IPv6.
SERVER = 0xFFFF_C000_0205
DEVICE_NS = 250_000
# 250 us on the disk, 130 us on the network, 51 + 30 + 20 us in the hypervisor.
COSTS = Costs(vmm=51_000, there=65_000, back=65_000,
              disk=Request(scheduler=None, device=DEVICE_NS, sector=9000))  # fmt: skip


def chain_recording(
    path: Path, machines: str = "guest host server", tcp_us: int = RTT_US, deviation_us: int = 9
) -> Path:
    chain = Chain()
    writer = chain.writer()
    for number in range(30):
        # Of a connection that no call of the recording used, and before there was a sample.
        for connection, rtt_us in ((CONNECTION, tcp_us), (CONNECTION + 1, 9_000), (CONNECTION, 0)):
            chain.host.emit("rpc_connection", writer.now, 0, connection=connection, rtt_us=rtt_us,
                            rtt_deviation_us=deviation_us, remote_low=SERVER)  # fmt: skip
        chain.durable_write(writer, number * 8192, COSTS)
    path.mkdir()
    return chain.recording(path, machines)


def estimated(path: Path, given: Given | None = None) -> Estimate:
    found = prepare(open_recording(path))
    return estimate(found, breakdown_of(found), given or Given())


def by_segment(found: Estimate) -> dict[str, Guess]:
    return {"+".join(guess.segments): guess for guess in found.guesses}


def adds_up(found: Estimate) -> None:
    """What is forgotten in one place is in another: the errors add up to nothing."""
    whole = [guess for guess in found.guesses if not guess.merged_into]
    assert sum(guess.measured_ns or 0 for guess in whole) == pytest.approx(found.total_ns)
    assert sum(guess.guess_ns or 0 for guess in whole) == pytest.approx(found.total_ns)
    assert sum(guess.error_ns or 0 for guess in whole) == pytest.approx(0, abs=1e-3)


def test_the_whole_path(tmp_path: Path) -> None:
    found = estimated(chain_recording(tmp_path / "chain"))
    adds_up(found)
    guesses = by_segment(found)
    network, disk, hypervisor = (guesses[name] for name in ("network", "device", "hypervisor"))
    assert (network.guess_ns, network.measured_ns) == (RTT_US * 1000, 130_000)
    assert (network.basis, network.of, network.samples) == (basis.TCP, "host", 30)
    assert (disk.guess_ns, disk.measured_ns) == (DEVICE_NS, DEVICE_NS)
    assert (disk.basis, disk.of, disk.samples) == (basis.SERIAL, "sda", 30)
    assert hypervisor.guess_ns == found.total_ns - RTT_US * 1000 - DEVICE_NS
    assert hypervisor.error_ns == hypervisor.guess_ns - (hypervisor.measured_ns or 0)
    assert {guesses[name].guess_ns for name in ("guest OS", "host OS", "server OS")} == {0}


def test_ones_own_numbers_go_before(tmp_path: Path) -> None:
    """The published case: 0.5 ms by ping, 4000/s, and the hypervisor has what is left."""
    found = estimated(chain_recording(tmp_path / "chain"), Given(500_000, 4000))
    adds_up(found)
    guesses = by_segment(found)
    assert [guesses[name].guess_ns for name in ("network", "device", "hypervisor")] == [
        500_000, 250_000, found.total_ns - 750_000,
    ]  # fmt: skip
    assert (guesses["hypervisor"].guess_ns or 0) < 0


@pytest.mark.parametrize(
    ("machines", "merged"),
    [("guest", "hypervisor and below"), ("guest host", "network and server")],
)
def test_what_was_not_recorded_is_guessed_together(
    machines: str, merged: str, tmp_path: Path
) -> None:
    path = chain_recording(tmp_path / "chain", machines)
    unknown = by_segment(estimated(path))
    assert unknown["device"].basis == basis.NO_DEVICE
    assert (unknown["device"].guess_ns, unknown[merged].guess_ns) == (None, None)
    assert unknown["hypervisor"].basis == basis.UNKNOWN
    found = estimated(path, Given(500_000, 4000))
    adds_up(found)
    guesses = by_segment(found)
    parts = [guess for guess in found.guesses if guess.merged_into == merged]
    assert sum(guess.guess_ns or 0 for guess in parts) == guesses[merged].guess_ns
    assert {guess.measured_ns for guess in parts} == {None}
    assert ("hypervisor" in [guess.segments[0] for guess in parts]) == (machines == "guest")


def test_one_machine_has_a_device_and_the_rest(tmp_path: Path) -> None:
    found = estimated(small_recording(tmp_path / "machine"))
    adds_up(found)
    disk, rest = found.guesses
    assert (disk.segments, disk.of) == (("device",), "vda")
    assert (rest.segments, rest.basis) == (("OS", "unattributed"), basis.REST)
    # A write has a flush, too: one request is too few.
    assert (disk.error_ns or 0) < 0 < (rest.error_ns or 0)


def test_without_a_connection_the_network_is_not_known(tmp_path: Path) -> None:
    chain = Chain()
    writer = chain.writer()
    for number in range(20):
        chain.durable_write(writer, number * 8192, COSTS)
    found = by_segment(estimated(chain.recording(tmp_path)))
    assert (found["network"].guess_ns, found["network"].basis) == (None, basis.NO_CONNECTION)
    assert (found["hypervisor"].guess_ns, found["hypervisor"].basis) == (None, basis.UNKNOWN)
    assert found["device"].guess_ns == DEVICE_NS


@pytest.mark.parametrize(("tcp_us", "deviation_us"), [(20_000, 9), (RTT_US, 61)])
def test_tcp_that_waits_for_replies_is_no_ping(
    tmp_path: Path, tcp_us: int, deviation_us: int
) -> None:
    """Its acknowledgement may come with the reply, or later: then it is no network's time."""
    path = chain_recording(tmp_path / "chain", tcp_us=tcp_us, deviation_us=deviation_us)
    found = by_segment(estimated(path))
    assert (found["network"].guess_ns, found["network"].basis) == (None, basis.WAITS)
    assert (found["network"].of, found["network"].samples) == ("host", 30)
    assert found["hypervisor"].basis == basis.UNKNOWN
    assert by_segment(estimated(path, Given(500_000)))["network"].guess_ns == 500_000


@pytest.mark.parametrize(("least_us", "told"), [("90", basis.LEAST), ("-", basis.TCP)])
def test_tcp_s_least_trip_goes_before_its_smoothed_one(
    tmp_path: Path, least_us: str, told: str
) -> None:
    path = chain_recording(tmp_path / "chain")
    (path / "host" / "facts").mkdir(exist_ok=True)
    lines = ("address port local_port rtt_us min_rtt_us",
             f"192.0.2.5 2049 {CONNECTION >> 16} 9000 {least_us}",
             "192.0.2.5 2049 4711 9000 17", "192.0.2.5 2049 - - -")  # fmt: skip
    text = "".join("\t".join(line.split()) + "\n" for line in lines)
    (path / "host" / "facts" / "connections").write_text(text)
    found = by_segment(estimated(path))["network"]
    guess_ns = {basis.LEAST: 90_000, basis.TCP: RTT_US * 1000}[told]
    assert (found.guess_ns, found.basis, found.of) == (guess_ns, told, "host")


def test_echoes_of_the_recording_go_before_tcp(tmp_path: Path) -> None:
    """Those to the server of the calls, meanwhile; not another's, nor one without an answer."""
    path = chain_recording(tmp_path / "chain", tcp_us=20_000)
    host = open_recording(path).traces()[1]
    near, far, begin, end = "192.0.2.5", "192.0.2.6", host.begin_ns, host.end_ns
    write_echoes(path / "host", (
        Echo(near, begin - 1, 7), Echo(near, begin, 90_000), Echo(far, begin, 7),
        Echo(near, end, 110_000), Echo(near, end, None), Echo(near, end + 1, 7),
    ))  # fmt: skip
    found = by_segment(estimated(path))["network"]
    assert (found.guess_ns, found.basis, found.of) == (100_000, basis.ECHO, "host")
    assert found.samples == 2
    assert by_segment(estimated(path, Given(5)))["network"].guess_ns == 5


def served_from_memory(path: Path, background: bool) -> Path:
    """Writes that wait for no disk; and perhaps somebody else's, one at a time."""
    world, disk = World(), device(254, 0)
    world.builder.block(disk, "vda")
    writer = Writer(world, 100, disk, 1_000_000)
    for _ in range(20):
        writer.enter()
        writer.cpu(5_000)
        writer.leave("pwrite64", flags=0o10000, result=8192, size=8192)
        writer.finish()
        if background:
            submit(world, disk, 7, writer.now, Request(scheduler=None, device=DEVICE_NS))
        writer.now += 1_000_000
    return write(world, path)


def test_a_recorded_machine_is_not_called_unrecorded(tmp_path: Path) -> None:
    """No write's time was in its device; it was recorded all the same."""
    found = by_segment(estimated(served_from_memory(tmp_path / "memory", background=False)))
    assert (found["device"].basis, found["device"].of) == (basis.NO_REQUEST, "local")
    found = by_segment(estimated(served_from_memory(tmp_path / "disk", background=True)))
    assert (found["device"].basis, found["device"].of) == (basis.SERIAL, "vda")
    assert (found["device"].guess_ns, found["device"].measured_ns) == (DEVICE_NS, 0)


def test_a_disk_that_is_never_idle_between(tmp_path: Path) -> None:
    world, disk = World(), device(254, 0)
    world.builder.block(disk, "vda")
    for thread in range(2):
        writer = Writer(world, 100 + thread, disk, 1_000 + 15_000 * thread)
        for _ in range(10):
            writer.enter()
            writer.data(Request(device=30_000))
            writer.leave("pwrite64", flags=0o10000, result=8192, size=8192)
            writer.finish()
    (found, rest) = estimated(write(world, tmp_path / "machine")).guesses
    assert (found.guess_ns, found.basis, found.of) == (None, basis.NEVER_ALONE, "vda")
    assert rest.basis == basis.UNKNOWN


def test_every_basis_has_its_words() -> None:
    names = {
        basis.GIVEN, basis.ECHO, basis.LEAST, basis.TCP, basis.SERIAL, basis.REST, basis.SUM,
        basis.IGNORED, basis.UNKNOWN, basis.WAITS, basis.NO_CONNECTION, basis.NO_DEVICE,
        basis.NO_REQUEST, basis.NEVER_ALONE,
    }  # fmt: skip
    assert report.FROM.keys() | report.WHY_NOT.keys() == names
    assert report.RESTS_ON.keys() < names
    assert set(get_args(Basis)) == names


def test_table_and_json(tmp_path: Path) -> None:
    whole, part = (
        estimated(chain_recording(tmp_path / name, machines))
        for name, machines in (("whole", "guest host server"), ("part", "guest host"))
    )
    for name, found in (("whole", whole), ("part", part)):
        text = report.plain(found)
        assert max(map(len, text.splitlines())) <= 80
        golden(f"estimate.{name}.txt", text)
    golden("estimate.json", estimate_json.render(whole))
    assert all(guess["error_ns"] is None for guess in json.loads(estimate_json.render(part))
               ["guesses"] if guess["guess_ns"] is None)  # fmt: skip


@pytest.mark.parametrize("width", [40, 48, 57, 58, 80, 120])
def test_a_narrow_terminal_has_what_was_guessed_and_measured(tmp_path: Path, width: int) -> None:
    text = report.render(estimated(chain_recording(tmp_path / "chain", "guest host")), width).plain
    assert max(map(len, text.splitlines())) <= width
    assert "guessed measured" in text
    assert ("relative" in text) == (width >= 58)
