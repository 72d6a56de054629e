# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a scenario's name or TOML in, a checked Scenario out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

import msgspec

from iostrata.errors import UsageError
from iostrata.lab.contradictions import contradictions
from iostrata.lab.problem import choice
from iostrata.lab.scenario import (
    Checks,
    Fault,
    Fio,
    Injection,
    Methods,
    Scenario,
    Variant,
    with_variant,
)
from iostrata.lab.steps import AnyStep
from iostrata.lab.topology import Disk, Link, Machine

PACKAGED: Final = Path(__file__).parent / "scenarios"
IN_TREE: Final = Path(__file__).parents[3] / "scenarios"
SUFFIX: Final = ".toml"
PARTS: Final = (
    *(Scenario, Machine, Disk, Link, Fio, Methods, Injection, Fault, Variant, Checks),
    *get_args(AnyStep),
)


class ScenarioError(UsageError):
    """A scenario that cannot be read, or that cannot be."""


def scenario_files() -> list[Path]:
    directory = PACKAGED if PACKAGED.is_dir() else IN_TREE
    return sorted(directory.glob(f"*{SUFFIX}"))


def scenarios() -> dict[str, Scenario]:
    """Those that come with iostrata, and their variants, by name."""
    return {name: found for file in scenario_files() for name, found in _with_variants(file)}


def find_scenario(name: str) -> tuple[Scenario, str]:
    """One of ``scenarios``, or the one in a file; and what it is called."""
    if name.endswith(SUFFIX):
        return read_scenario(Path(name)), Path(name).stem
    known = scenarios()
    if name in known:
        return known[name], name
    raise ScenarioError(
        f"there is no scenario {name}",
        choice(name, known, "scenario") + f", or the path of a {SUFFIX} file",
    )


def read_scenario(file: Path) -> Scenario:
    """Errors: ScenarioError, which names the file and the key."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ScenarioError(
            f"{file} cannot be read: {error.strerror}", "iostrata lab list shows the scenarios"
        ) from error
    try:
        scenario = msgspec.toml.decode(data, type=Scenario)
    except msgspec.ValidationError as error:
        raise _invalid(file, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise ScenarioError(f"{file} is no TOML: {error}", "see https://toml.io") from error
    for key, problem, hint in contradictions(scenario):
        raise ScenarioError(f"{file}: {key}: {problem}", hint)
    return scenario


def _with_variants(file: Path) -> Iterator[tuple[str, Scenario]]:
    scenario = read_scenario(file)
    yield file.stem, scenario
    for variant in scenario.variants:
        yield f"{file.stem}-{variant.name}", with_variant(scenario, variant)


def _invalid(file: Path, message: str) -> ScenarioError:
    what, _, path = message.partition(" - at `")
    # A key that is wrong itself is "`key` in `$.PATH`".
    path = path.removesuffix("`").removeprefix("key` in `")
    key = path.removeprefix("$").removeprefix(".") or "top level"
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what)
    if unknown:
        known = {key for part in PARTS for key in part.__struct_fields__}
        return ScenarioError(
            f"{file}: {key}: unknown key `{unknown[1]}`", choice(unknown[1], known, "key")
        )
    return ScenarioError(f"{file}: {key}: {what}", "compare with the scenario local")
