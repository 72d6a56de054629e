# SPDX-License-Identifier: Apache-2.0
"""The published JSON Schemas (of today: see test_docs) are held by every document there is."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator, ValidationError

from iostrata import lab
from iostrata.analysis import analyse
from iostrata.attribute.summarise import summarise
from iostrata.bench import json as bench_json
from iostrata.bench.result import measure, summarise_tests
from iostrata.cli import doctor_json, lab_json, status_of
from iostrata.cli.schemas import DOCUMENTS
from iostrata.errors import LabError
from iostrata.record.diagnosis import Probe
from iostrata.record.mounts import Carried, NetworkMount
from iostrata.record.permission import Refusal
from iostrata.record.route import Connection, Route
from iostrata.recording import open_recording
from iostrata.report.document import text
from tests.bench.test_bench import PHASES
from tests.cli.test_doctor import with_disks
from tests.record.test_diagnosis import diagnosis
from tests.report.test_golden import GOLDEN, RECORDINGS

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"
RECORDED = sorted(path.parent.name for path in RECORDINGS.glob("*/recording.json"))


def validated(document: Any) -> None:
    """Of its schema, as published; and what is read back into its struct is what was written."""
    name = document["schema"].removeprefix("iostrata.").replace("/", "-")
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(document)


def whole(printed: str) -> None:
    validated(json.loads(printed))
    assert text(msgspec.json.decode(printed, type=reduce(or_, DOCUMENTS))) == printed


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_goldens(path: Path) -> None:
    whole(path.read_text())


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("command", ["replay", "timeline", "estimate"])
def test_of_recordings(command: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of([command, str(RECORDINGS / name), "--json", "-"]) in (0, 7)
    whole(capsys.readouterr().out)


def test_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    names = (str(RECORDINGS / name) for name in ("xfs_log", "four_methods"))
    assert status_of(["compare", *names, "--by", "method", "--json", "-"]) == 0
    whole(capsys.readouterr().out)


def test_a_bench() -> None:
    breakdown = analyse(open_recording(RECORDINGS / "four_methods"))
    begin = int(breakdown.writes.begin_ns[0])
    phases = [
        *PHASES,
        msgspec.structs.replace(PHASES[1], begin_ns=begin, end_ns=begin + 1_000_000_000),
    ]
    summary = summarise_tests(breakdown, phases)
    assert summary.groups
    whole(bench_json.render(measure(phases, summary), summary))
    whole(bench_json.render(measure(phases, None), None))


def test_a_diagnosis() -> None:
    mount = NetworkMount("/mnt/nas", "nas:/export", "192.0.2.5", 2049, "tcp")
    route = Route("eth0", "", "192.0.2.9")
    connection = Connection(900, 312, 20, 250, 1448, 0)
    mounts = (Carried(mount, route, (connection,)), Carried(mount, None, ()))
    found = replace(with_disks(diagnosis()), mounts=mounts)
    whole(doctor_json.render(found))
    whole(doctor_json.render(replace(found, refusal=Refusal("no rights", "be root"))))


def test_a_lab() -> None:
    summary = summarise(analyse(open_recording(RECORDINGS / "nfs")))
    checks = (lab.Check("lost", True, "0", "0"),)
    probes = (Probe("kvm_exit", ("kvm_exit",), "kvm", "ENOENT", "none"),)
    result = lab.Result(
        "local",
        Path("/tmp"),
        (lab.MachineResult("local", "6.1.0", 3.25, probes, checks),),
        (lab.RoundResult("fdatasync", Path("/tmp/fdatasync"), summary, checks),),
    )
    whole(lab_json.render(result))
    whole(lab_json.render(replace(result, broken=LabError("machine local: it is gone"))))


def test_they_refuse_what_is_no_such_document() -> None:
    document = json.loads((GOLDEN / "one_method.json").read_text())
    wrong: list[dict[str, Any]] = [
        {name: value for name, value in document.items() if name != "residual"},
        document | {"layers": [{"layer": "syscall"}]},
        document | {"total_ns": document["total_ns"] | {"mean": "fast"}},
        document | {"writes": {"analysed": -1, "left_out": {}}},
    ]
    for each in wrong:
        with pytest.raises(ValidationError, match=r"required|is not of type|less than the minimum"):
            validated(each)
