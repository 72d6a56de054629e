# SPDX-License-Identifier: Apache-2.0
"""Lab stage: declared links in, their cables, and the machines' interfaces that they join, out."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from iostrata.lab.machine import RunningMachine
from iostrata.lab.steps import Link


@dataclass(frozen=True)
class Plug:
    """A machine's end of a link. ``descriptor``: of the socket that is the cable."""

    link: str
    address: str
    mac: str
    descriptor: int


def lay(links: Iterable[Link], cables: ExitStack) -> Mapping[str, Sequence[Plug]]:
    """The plugs of each machine; ``cables`` closes our hold of them once QEMU has its own."""
    plugs: dict[str, list[Plug]] = defaultdict(list)
    for number, link in enumerate(links):
        ends = zip(link.addresses.items(), socket.socketpair(), strict=True)
        for end, ((machine, address), held) in enumerate(ends):
            mac = f"52:54:00:00:{number:02x}:{end:02x}"
            descriptor = cables.enter_context(held).fileno()
            plugs[machine].append(Plug(link.name, address, mac, descriptor))
    return plugs


def plug_in(machine: RunningMachine, plugs: Iterable[Plug]) -> None:
    """The interface of each gets the link's name and its address."""
    for plug in plugs:
        machine.command(
            f"""set -e
            path=$(grep -lx {plug.mac} /sys/class/net/*/address)
            interface=${{path%/address}}
            ip link set "${{interface##*/}}" name {plug.link}
            ip address add {plug.address} dev {plug.link}
            ip link set {plug.link} up"""
        )
