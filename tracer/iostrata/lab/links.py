# SPDX-License-Identifier: Apache-2.0
"""Lab stage: declared links in, their cables, and the interfaces that they join, out.

A cable is a pair of sockets between the QEMU of two machines. What is nested has no cable of its
own: the machine below has a bridge, of the link's name, between the cable and a tap of its QEMU.
"""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from iostrata.lab.topology import Link, Machine


@dataclass(frozen=True)
class Plug:
    """A machine's interface. ``descriptor``: of the socket; ``tap``: of the machine below, instead.

    ``address``: none if the interface belongs to a bridge.
    """

    link: str
    address: str
    mac: str
    descriptor: int = -1
    tap: str = ""


@dataclass(frozen=True)
class Bridge:
    """``cable``: the address of the interface that belongs to it, if one does."""

    link: str
    address: str
    cable: str
    taps: tuple[str, ...]


@dataclass(frozen=True)
class Wiring:
    """By machine."""

    plugs: dict[str, list[Plug]] = field(default_factory=lambda: defaultdict(list))
    bridges: dict[str, list[Bridge]] = field(default_factory=lambda: defaultdict(list))


def lay(links: Iterable[Link], machines: Mapping[str, Machine], cables: ExitStack) -> Wiring:
    """``cables`` closes our hold of the sockets once QEMU has its own."""
    wiring = Wiring()
    for number, link in enumerate(links):
        carriers = {machines[name].carrier: None for name in link.addresses}
        sockets = [cables.enter_context(each) for each in socket.socketpair()]
        for side, (carrier, held) in enumerate(zip(carriers, sockets, strict=False)):
            ends = {
                name: address
                for name, address in link.addresses.items()
                if machines[name].carrier == carrier
            }
            own = ends.pop(carrier, "")
            cable = Plug(link.name, "" if ends else own, _mac(number, side), held.fileno())
            if len(carriers) > 1:
                wiring.plugs[carrier].append(cable)
            if not ends:
                continue
            taps = tuple(f"{link.name[:10]}-tap{tap}" for tap in range(len(ends)))
            for tap, (name, address) in enumerate(ends.items()):
                mac = _mac(number, side, tap + 1)
                wiring.plugs[name].append(Plug(link.name, address, mac, tap=taps[tap]))
            joined = cable.mac if len(carriers) > 1 else ""
            wiring.bridges[carrier].append(Bridge(link.name, own, joined, taps))
    return wiring


def _mac(link: int, side: int, tap: int = 0) -> str:
    return f"52:54:00:{tap:02x}:{link:02x}:{side:02x}"


def commands(wiring: Wiring, machine: str) -> list[str]:
    """For its shell: the interface of each link, or its bridge, gets its name and address."""
    own = [_interface(plug) for plug in wiring.plugs[machine] if plug.address]
    return own + [_bridge(bridge) for bridge in wiring.bridges[machine]]


def _interface(plug: Plug) -> str:
    return f"""set -e
        {_found(plug.mac)}
        ip link set $interface name {plug.link}
        ip address add {plug.address} dev {plug.link}
        ip link set {plug.link} up"""


def _bridge(bridge: Bridge) -> str:
    lines = [
        "set -e; modprobe --all bridge tun vhost_net",
        f"ip link add {bridge.link} type bridge",
    ]
    if bridge.cable:
        lines += [_found(bridge.cable), f"ip link set $interface master {bridge.link} up"]
    for tap in bridge.taps:
        lines += [f"ip tuntap add {tap} mode tap", f"ip link set {tap} master {bridge.link} up"]
    if bridge.address:
        lines.append(f"ip address add {bridge.address} dev {bridge.link}")
    return "\n".join([*lines, f"ip link set {bridge.link} up"])


def _found(mac: str) -> str:
    """Sets $interface."""
    path = f"$(grep -lx {mac} /sys/class/net/*/address)"
    return f"path={path}; path=${{path%/address}}; interface=${{path##*/}}"
