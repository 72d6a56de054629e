# SPDX-License-Identifier: Apache-2.0
"""The wheel: an index takes it, every Linux of its machine runs it, everybody builds the same."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest
from packaging.utils import parse_wheel_filename

from iostrata import __version__
from iostrata.errors import RecorderError
from iostrata.record import find_recorder
from tests.record.test_binary import PT_INTERP, headers
from tests.test_native import needed_by

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ("LICENSE", "README.md", "bpf", "docs", "pyproject.toml", "scenarios", "tracer")
ELF: Final = b"\x7fELF"
# e_machine of elf.h.
MACHINES: Final = {"x86_64": 62, "aarch64": 183}


def build(place: Path, changed_s: int, **told: str) -> Path:
    """A wheel of a copy of the sources at ``place``, which were changed at that time."""
    place.mkdir(parents=True)
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, place / name, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, place)
    # The recorder is built already: what it is made of keeps its time.
    for path in (*place.joinpath("tracer").rglob("*"), *place.glob("*.*")):
        os.utime(path, (changed_s, changed_s))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel"],
        cwd=place, check=True, capture_output=True, timeout=300, env=os.environ | told,
    )  # fmt: skip
    (wheel,) = place.joinpath("dist").iterdir()
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    try:
        find_recorder()
    except RecorderError as error:
        pytest.skip(str(error))
    place = tmp_path_factory.mktemp("wheels")
    return build(place / "a", 1_000_000_000), build(place / "deeper/b", 1_700_000_000)


def test_the_same_source_gives_the_same_wheel(wheels: tuple[Path, Path]) -> None:
    first, second = wheels
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_an_index_takes_it(wheels: tuple[Path, Path]) -> None:
    """Plain linux_x86_64 is what it refuses."""
    name, version, _, tags = parse_wheel_filename(wheels[0].name)
    machine = platform.machine()
    assert (name, str(version)) == ("iostrata", __version__)
    assert {str(tag) for tag in tags} == {
        f"py3-none-manylinux2014_{machine}", f"py3-none-musllinux_1_1_{machine}"
    }  # fmt: skip


def test_a_recorder_for_another_cpu_makes_a_wheel_for_that(
    wheels: tuple[Path, Path], tmp_path: Path
) -> None:
    (other,) = set(MACHINES) - {platform.machine()}
    foreign = bytearray(find_recorder().read_bytes())
    struct.pack_into("<H", foreign, 18, MACHINES[other])
    (tmp_path / "foreign").write_bytes(foreign)
    wheel = build(tmp_path / "a", 1_000_000_000, IOSTRATA_RECORDER=str(tmp_path / "foreign"))
    assert wheel.name == wheels[0].name.replace(platform.machine(), other)
    with ZipFile(wheel) as opened:
        assert opened.read("iostrata/record/iostrata-record") == foreign


def test_nothing_in_it_needs_a_library(wheels: tuple[Path, Path]) -> None:
    """What its tags promise of old and new C libraries, and of musl's."""
    with ZipFile(wheels[0]) as wheel:
        native = [one for one in wheel.infolist() if wheel.read(one).startswith(ELF)]
        by_name = {one.filename: one for one in native}
        recorder = by_name.pop("iostrata/record/iostrata-record")
        (library,) = by_name
        binary = wheel.read(recorder)
        needed = needed_by(wheel.read(library))
    assert library == "iostrata/libnative.so"
    assert not needed
    assert recorder.filename == "iostrata/record/iostrata-record"
    assert recorder.external_attr >> 16 & 0o777 == 0o755
    assert PT_INTERP not in dict(headers(binary))
    (machine,) = struct.unpack_from("<H", binary, 18)
    assert machine == MACHINES[platform.machine()]


def test_it_says_what_others_made_of_it(wheels: tuple[Path, Path]) -> None:
    with ZipFile(wheels[0]) as wheel:
        info = f"iostrata-{__version__}.dist-info"
        charts = json.loads(wheel.read(f"{info}/sboms/uplot.cdx.json"))
        script = wheel.read("iostrata/report/uplot/uPlot.iife.min.js")[:200].decode()
        licences = [name for name in wheel.namelist() if name.startswith(f"{info}/licenses/")]
    (part,) = charts["components"]
    assert re.findall(r"uPlot \(v([\d.]+)\)", script) == [part["version"]]
    assert part["purl"].endswith(f"@{part['version']}")
    assert {name.removeprefix(f"{info}/licenses/") for name in licences} == {
        "LICENSE", "bpf/LICENSE", "tracer/iostrata/report/uplot/LICENSE"
    }  # fmt: skip
