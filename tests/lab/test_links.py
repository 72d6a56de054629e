# SPDX-License-Identifier: Apache-2.0
"""Links: which interfaces machines get, whether they are nested or not, and what joins them."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from iostrata.lab import qemu
from iostrata.lab.links import Wiring, commands, lay
from iostrata.lab.topology import Link, Machine

MACHINES = {
    each.name: each
    for each in (
        Machine(name="host"),
        Machine(name="server"),
        Machine(name="guest", nested="host"),
        Machine(name="other", nested="host"),
    )
}


def wired(*ends: str) -> Wiring:
    addresses = {name: f"192.0.2.{number}/24" for number, name in enumerate(ends, 1)}
    with ExitStack() as cables:
        return lay([Link(name="lan", addresses=addresses)], MACHINES, cables)


@pytest.mark.parametrize(
    ("ends", "cables", "taps", "bridged"),
    [
        (("host", "server"), ["host", "server"], [], ""),
        (("guest", "server"), ["host", "server"], ["guest"], ""),
        (("host", "guest"), [], ["guest"], "192.0.2.1/24"),
        (("guest", "other"), [], ["guest", "other"], ""),
    ],
)
def test_machines_that_a_link_joins(
    ends: tuple[str, str], cables: list[str], taps: list[str], bridged: str
) -> None:
    """A cable joins two machines that are not nested; a nested one is joined by a bridge below."""
    wiring = wired(*ends)
    plugs = [(name, plug) for name, found in wiring.plugs.items() for plug in found]
    assert sorted(name for name, plug in plugs if plug.descriptor >= 0) == cables
    assert [name for name, plug in plugs if plug.tap] == taps
    with_address = {name: plug.address for name, plug in plugs if plug.address}
    bridges = [bridge for bridge in wiring.bridges["host"] if bridge.address]
    assert [bridge.address for bridge in bridges] == ([bridged] if bridged else [])
    if bridged:
        with_address["host"] = bridged
    assert with_address == {name: f"192.0.2.{at}/24" for at, name in enumerate(ends, 1)}
    assert len({plug.mac for _, plug in plugs}) == len(plugs)


def test_an_interface_gets_the_links_name_and_address() -> None:
    wiring = wired("guest", "server")
    (command,) = commands(wiring, "server")
    assert wiring.plugs["server"][0].mac in command
    assert "ip address add 192.0.2.2/24 dev lan" in command
    (command,) = commands(wiring, "guest")
    assert "ip address add 192.0.2.1/24 dev lan" in command


def test_a_bridge_joins_the_cable_and_the_tap_and_has_no_address() -> None:
    wiring = wired("guest", "server")
    (command,) = commands(wiring, "host")
    assert wiring.plugs["host"][0].mac in command
    assert "ip link set $interface master lan up" in command
    assert "ip link set lan-tap0 master lan up" in command
    assert "address add" not in command


def test_the_tap_is_the_nested_machines_interface() -> None:
    wiring = wired("guest", "server")
    line = " ".join(qemu.nested_command_line(MACHINES["guest"], wiring.plugs["guest"]))
    mac = wiring.plugs["guest"][0].mac
    assert f"tap,id=lan,ifname=lan-tap0,script=no,downscript=no -device virtio-net-pci,netdev=lan,mac={mac}" in line  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("vhost", [False, True])
def test_who_takes_what_a_tap_is_sent(vhost: bool) -> None:
    guest = Machine(name="guest", nested="host", vhost=vhost)
    line = " ".join(qemu.nested_command_line(guest, wired("guest", "server").plugs["guest"]))
    assert ("downscript=no,vhost=on" in line) == vhost
