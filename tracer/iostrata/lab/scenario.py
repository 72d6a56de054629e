# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a scenario's TOML in, a checked Scenario out.

A scenario declares machines, the storage stack that is built on them step by
step, workloads, injections and what must be found. To add a kind of step or
workload: one tagged struct here, and what brings it about in stack or workload.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from iostrata.errors import UsageError
from iostrata.layers import ROWS

PACKAGED: Final = Path(__file__).parent / "scenarios"
IN_TREE: Final = Path(__file__).parents[3] / "scenarios"
SUFFIX: Final = ".toml"

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,15}$")]
Count = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Place = Annotated[str, msgspec.Meta(pattern=r"^/[\w./-]+$")]


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a scenario: no key goes unread."""


class Disk(Strict, frozen=True, kw_only=True):
    """A virtio disk, its image a new sparse file of the lab."""

    name: Name
    size_mib: Count = 1024


class Machine(Strict, frozen=True, kw_only=True):
    """``modules``: loaded although no step needs them, to see whether they can be observed."""

    name: Name
    role: Literal["local", "guest", "host", "server"] = "local"
    kernel: str = "6.1"
    cpus: Count = 1
    memory_mib: Annotated[int, msgspec.Meta(ge=256)] = 1024
    disks: tuple[Disk, ...] = ()
    modules: tuple[Name, ...] = ()


class NullBlock(Strict, tag="null_blk", tag_field="kind", frozen=True, kw_only=True):
    """A disk in the machine's memory that completes each request after ``completion_ns``."""

    name: Name
    machine: Name
    size_mib: Count = 256
    completion_ns: Annotated[int, msgspec.Meta(ge=0)] = 0


class FileSystem(Strict, tag="file_system", tag_field="kind", frozen=True, kw_only=True):
    """``device``: a disk of the machine, or an earlier step there."""

    name: Name
    machine: Name
    device: Name
    type: Literal["ext4", "xfs", "btrfs"] = "ext4"
    directory: Place


Step = NullBlock | FileSystem


class Fio(Strict, tag="fio", tag_field="kind", frozen=True, kw_only=True):
    """``options``: fio's own, as on its command line."""

    name: Name
    machine: Name
    directory: Place
    options: dict[str, str | int]


Workload = Fio


class Injection(Strict, frozen=True, kw_only=True):
    """Another round of ``workload``, with keys of ``step`` replaced.

    The step then delays each write by ``delay_ns``, which must be found in ``rows``.
    """

    name: Name
    workload: Name
    step: Name
    replace: dict[str, Any]
    delay_ns: Count
    rows: tuple[str, ...]


class Checks(Strict, frozen=True, kw_only=True):
    """What must be found in every round; conservation is checked without being asked for.

    ``count``: as many writes as the workload made. ``mean_deviation``: from the
    workload's own. ``found`` and ``elsewhere``: of an injection's delay, in its
    rows at least and in any other row at most, against the round without it.
    """

    count: bool = True
    analysed: Share = 0.999
    mean_deviation: Share = 0.03
    residual: Share = 0.01
    observed: tuple[str, ...] = ()
    found: Share = 0.95
    elsewhere: Share = 0.03


class Scenario(Strict, frozen=True, kw_only=True):
    description: str
    machines: Annotated[tuple[Machine, ...], msgspec.Meta(min_length=1)]
    stack: tuple[Step, ...] = ()
    workloads: Annotated[tuple[Workload, ...], msgspec.Meta(min_length=1)]
    injections: tuple[Injection, ...] = ()
    checks: Checks = Checks()


class ScenarioError(UsageError):
    """A scenario that cannot be read, or that cannot be."""


def scenario_directory() -> Path:
    return PACKAGED if PACKAGED.is_dir() else IN_TREE


def scenario_files() -> list[Path]:
    return sorted(scenario_directory().glob(f"*{SUFFIX}"))


def find_scenario(name: str) -> Path:
    """One of the scenarios that come with iostrata, or the path of a file."""
    if name.endswith(SUFFIX):
        return Path(name)
    known = {file.stem: file for file in scenario_files()}
    if name in known:
        return known[name]
    raise ScenarioError(
        f"there is no scenario {name}",
        _choice(name, known, "scenario") + f", or the path of a {SUFFIX} file",
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
    for key, problem, hint in _contradictions(scenario):
        raise ScenarioError(f"{file}: {key}: {problem}", hint)
    return scenario


def with_kernel(scenario: Scenario, kernel: str) -> Scenario:
    """The same scenario, every machine with that kernel."""
    machines = (msgspec.structs.replace(machine, kernel=kernel) for machine in scenario.machines)
    return msgspec.structs.replace(scenario, machines=tuple(machines))


def with_injection(stack: Iterable[Step], injection: Injection) -> tuple[Step, ...]:
    """The stack with the injection's step changed. Errors: msgspec.ValidationError."""
    return tuple(
        msgspec.convert({**msgspec.to_builtins(step), **injection.replace}, type=type(step))
        if step.name == injection.step
        else step
        for step in stack
    )


def _invalid(file: Path, message: str) -> ScenarioError:
    what, _, path = message.partition(" - at `")
    key = path.removesuffix("`").removeprefix("$").removeprefix(".") or "top level"
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what)
    if unknown:
        return ScenarioError(
            f"{file}: {key}: unknown key `{unknown[1]}`", _choice(unknown[1], _keys(), "key")
        )
    return ScenarioError(f"{file}: {key}: {what}", "compare with the scenario local")


def _keys() -> set[str]:
    structs = (Scenario, Machine, Disk, NullBlock, FileSystem, Fio, Injection, Checks)
    return {key for struct in structs for key in struct.__struct_fields__}


def _choice(wrong: str, known: Iterable[str], what: str) -> str:
    close = difflib.get_close_matches(wrong, list(known), n=1)
    return f"did you mean {close[0]}?" if close else f"known {what}s: {', '.join(sorted(known))}"


def _contradictions(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """Key, problem, hint: what no single key can show."""
    yield from _repeated("machines", (machine.name for machine in scenario.machines))
    machines = {machine.name: machine for machine in scenario.machines}
    devices = {machine.name: [disk.name for disk in machine.disks] for machine in scenario.machines}
    directories: dict[str, list[str]] = {name: [] for name in machines}
    yield from _repeated("stack", (step.name for step in scenario.stack))
    for number, step in enumerate(scenario.stack):
        key = f"stack[{number}]"
        if step.machine not in machines:
            yield f"{key}.machine", *_missing(step.machine, machines, "machine")
            return
        if isinstance(step, FileSystem):
            if step.device not in devices[step.machine]:
                yield f"{key}.device", *_missing(step.device, devices[step.machine], "device")
            directories[step.machine].append(step.directory)
        else:
            if step.name in devices[step.machine]:
                yield f"{key}.name", f"there is a disk {step.name} already", "choose another name"
            devices[step.machine].append(step.name)
    rounds = [workload.name for workload in scenario.workloads]
    rounds += [injection.name for injection in scenario.injections]
    yield from _repeated("workloads and injections", rounds)
    for number, workload in enumerate(scenario.workloads):
        key = f"workloads[{number}]"
        if workload.machine not in machines:
            yield f"{key}.machine", *_missing(workload.machine, machines, "machine")
            return
        if workload.directory not in directories[workload.machine]:
            known = directories[workload.machine]
            yield f"{key}.directory", *_missing(workload.directory, known, "mounted directory")
    yield from _injections(scenario)


def _injections(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    workloads = [workload.name for workload in scenario.workloads]
    steps = [step.name for step in scenario.stack]
    for number, injection in enumerate(scenario.injections):
        key = f"injections[{number}]"
        if injection.workload not in workloads:
            yield f"{key}.workload", *_missing(injection.workload, workloads, "workload")
        if injection.step not in steps:
            yield f"{key}.step", *_missing(injection.step, steps, "step")
        for row in injection.rows:
            if row not in (rows := [row.name for row in ROWS]):
                yield f"{key}.rows", *_missing(row, rows, "row")
        try:
            with_injection(scenario.stack, injection)
        except msgspec.ValidationError as error:
            yield f"{key}.replace", str(error), f"give keys of the step {injection.step}"


def _repeated(key: str, names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    for name, count in Counter(names).items():
        if count > 1:
            yield key, f"{count} are named {name}", "give each a name of its own"


def _missing(name: str, known: Iterable[str], what: str) -> tuple[str, str]:
    listed = list(known)
    return f"there is no {what} {name}", (
        _choice(name, listed, what) if listed else f"declare a {what} before it"
    )
