# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a Scenario in, the kernel, modules and packages that each machine gets out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iostrata.errors import LabError
from iostrata.lab.kernels import Kernel, kernel
from iostrata.lab.listen import LabListener
from iostrata.lab.packages import fetched, fetched_root
from iostrata.lab.scenario import Scenario
from iostrata.lab.tools import find_tool
from iostrata.lab.topology import Machine


@dataclass(frozen=True)
class Software:
    """``modules``: with their parameters. ``unpacked``: packages that this machine lacks.

    ``root``: what machines share of this one: its own root, or one of their architecture.
    """

    kernel: Kernel
    modules: tuple[str, ...]
    packages: tuple[str, ...]
    unpacked: Path | None
    root: Path = Path("/")

    @property
    def busybox(self) -> Path:
        """One that needs no library."""
        own = self.root == Path("/")
        return Path(find_tool("busybox")) if own else self.root / "bin" / "busybox"

    def load_modules(self) -> str:
        """The command for a machine that did not come up with them."""
        lines = [f"modprobe {module}" for module in self.modules if " " in module]
        plain = [module for module in self.modules if " " not in module]
        lines += [f"modprobe --all {' '.join(plain)}"] if plain else []
        return "\n".join(["set -e", *lines])


def software(scenario: Scenario, listener: LabListener) -> Mapping[str, Software]:
    """By machine. Those nested in one machine share a root, and so their packages."""
    found = {}
    for machine in scenario.machines:
        sharing = [each.name for each in scenario.machines if each.nested == machine.nested]
        names = sharing if machine.nested else [machine.name]
        packages = tuple(sorted({each for name in names for each in scenario.packages(name)}))
        found[machine.name] = Software(
            kernel(machine.kernel, listener, machine.architecture),
            tuple(scenario.modules(machine)),
            packages,
            *_root(machine, packages, listener),
        )
    return found


def _root(
    machine: Machine, packages: Sequence[str], listener: LabListener
) -> tuple[Path | None, Path]:
    """What goes above its root, and the root."""
    if machine.hardware.foreign and machine.nested:
        raise LabError(
            f"machine {machine.name} is nested, and of {machine.architecture}",
            f"run this lab on a machine of {machine.architecture}, whose programs it has",
        )
    if machine.hardware.foreign:
        return None, fetched_root(machine.architecture, packages, listener)
    return fetched(packages, listener), Path("/")
