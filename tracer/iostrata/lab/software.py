# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a Scenario in, the kernel, modules and packages that each machine gets out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from iostrata.lab.kernels import Kernel, kernel
from iostrata.lab.listen import LabListener
from iostrata.lab.packages import fetched
from iostrata.lab.scenario import Scenario


@dataclass(frozen=True)
class Software:
    """``modules``: with their parameters. ``unpacked``: packages that this machine lacks."""

    kernel: Kernel
    modules: tuple[str, ...]
    packages: tuple[str, ...]
    unpacked: Path | None

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
            kernel(machine.kernel, listener),
            tuple(scenario.modules(machine)),
            packages,
            fetched(packages, listener),
        )
    return found
