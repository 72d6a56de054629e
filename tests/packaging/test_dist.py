# SPDX-License-Identifier: Apache-2.0
"""Each artefact is installed where it is for, by README's commands, records, and is removed."""

from __future__ import annotations

import json
import platform
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from iostrata import __version__
from tests.packaging.dist import (
    BUNDLED,
    DIST,
    ROOT,
    artefact,
    for_arm64,
    readme,
    records,
    table,
)
from tests.packaging.test_wheel import ELF, MACHINES
from tests.record.test_binary import PT_INTERP, headers
from tests.roots import fresh_root, inside, run
from tests.test_native import needed_by

pytestmark = pytest.mark.dist
ELFCLASS64: Final = 2
PYTHON: Final = (sys.executable, "-m", "iostrata")
# Where the wheel of arm64 is made, too.
ON_X86_64: Final = platform.machine() == "x86_64"
SUITES: Final = {"bookworm": "deb12", "trixie": "deb13"}


@pytest.fixture(scope="module", params=SUITES)
def fresh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system with pipx and without a compiler, dist and a recording."""
    root = fresh_root(request.param, "pipx", tmp_path_factory.mktemp(request.param))
    shutil.copytree(DIST, root / "dist")
    shutil.copytree(ROOT / BUNDLED, root / "recording")
    assert not (root / "usr/bin/cc").exists()
    return root


def does(root: Path, command: str) -> str:
    return run(*inside(root, "sh", "-c", f"cd / && {command}"), timeout_s=1800)


def works(root: Path, program: str) -> None:
    there = inside(root, program)
    assert table(*there, recording="/recording") == table(*PYTHON)
    records([*there, "run"])


def test_the_wheel_is_installed_by_pipx(fresh: Path) -> None:
    does(fresh, readme("pipx"))
    works(fresh, "/root/.local/bin/iostrata")


def test_the_deb_is_installed_by_apt(fresh: Path, request: pytest.FixtureRequest) -> None:
    of_suite = SUITES[request.node.callspec.params["fresh"]]
    does(fresh, readme("apt").replace("deb13", of_suite).replace("install", "install --yes", 1))
    works(fresh, "/usr/bin/iostrata")
    does(fresh, "iostrata-record --version")
    assert (fresh / "usr/share/man/man1/iostrata.1").exists()
    does(fresh, "apt-get purge --yes iostrata")
    assert not (fresh / "usr/lib/iostrata").exists()


def test_the_rpm_is_installed_by_rpm(fresh: Path, request: pytest.FixtureRequest) -> None:
    """There is no RHEL to be had: where its Python is, with what it needs looked for by hand."""
    if request.node.callspec.params["fresh"] != "bookworm":
        pytest.skip("this Debian has another Python than the .rpm")
    package = artefact("iostrata-*.rpm")
    rpm = ("rpm", "--root", str(fresh), "--force-debian")
    needed = run("rpm", "--query", "--requires", "--package", package).split("\n")
    files = {line for line in needed if line.startswith("/")}
    assert "/usr/bin/python3.11" in files
    assert all((fresh / name.lstrip("/")).exists() for name in files)
    assert all(line.startswith(("/", "rpmlib(")) for line in needed if line)
    run(*rpm, "--install", "--nodeps", package)
    works(fresh, "/usr/bin/iostrata")
    run(*rpm, "--erase", "--nodeps", "iostrata")
    assert not (fresh / "usr/lib/iostrata").exists()


def test_the_source_is_installed_by_pip(tmp_path: Path) -> None:
    """It builds the very recorder that is given away."""
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    run(python, "-m", "pip", "install", artefact("iostrata-[0-9]*.tar.gz"), timeout_s=1800)
    assert table(python, "-m", "iostrata") == table(*PYTHON)
    (built,) = tmp_path.glob("venv/lib/python*/site-packages/iostrata/record/iostrata-record")
    assert built.read_bytes() == (ROOT / "bpf/build/iostrata-record").read_bytes()
    records([python, "-m", "iostrata", "run"])


def test_the_recorder_alone_needs_nothing(tmp_path: Path) -> None:
    """No C library of any kind, no loader, no file: in an empty root."""
    shutil.copytree(DIST, tmp_path / "dist")
    run("sh", "-c", f"cd {tmp_path} && {readme('tar')}")
    (place,) = tmp_path.glob("iostrata-record-*")
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy2(place / "iostrata-record", alone)
    assert run("chroot", alone, "/iostrata-record", "--version").split()[1] == __version__
    assert {path.name for path in place.iterdir()} == {
        "LICENSE", "iostrata-record", "linked", "recorder.cdx.json"
    }  # fmt: skip


def test_where_musl_is_no_compiler_is_needed(tmp_path: Path) -> None:
    """There is no musl system to be had: pip has a wheel for it of all that is asked for."""
    machine = platform.machine()
    known = [f"--platform=musllinux_1_{minor}_{machine}" for minor in (1, 2)]
    download: tuple[str | Path, ...] = (
        sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", *known,
        "--python-version=3.12", "--dest", tmp_path, f"--find-links={DIST}",
    )  # fmt: skip
    run(*download, f"iostrata=={__version__}", timeout_s=1800)
    wheels = {path.name for path in tmp_path.iterdir()}
    assert artefact(f"*_{machine}.whl").name in wheels
    assert not any("manylinux" in name and "musllinux" not in name for name in wheels)


@pytest.mark.skipif(not ON_X86_64, reason="of another CPU there is a wheel only from x86_64")
def test_the_wheel_of_another_cpu_is_for_that(tmp_path: Path) -> None:
    """pip takes it there, and all of it that is no text is that CPU's: the very recorder that is
    cross-built, and what of the analysis is C. tests/kernels has it record."""
    unpacked = for_arm64(artefact("*_aarch64.whl"), tmp_path / "arm64", "3.13")
    native = {
        str(path.relative_to(unpacked)): path.read_bytes()
        for path in (unpacked / "iostrata").rglob("*")
        if path.is_file() and path.read_bytes().startswith(ELF)
    }
    assert set(native) == {"iostrata/libnative.so", "iostrata/record/iostrata-record"}
    built = ROOT / "bpf/build/arm64/iostrata-record"
    assert native["iostrata/record/iostrata-record"] == built.read_bytes()
    for binary in native.values():
        assert binary[4] == ELFCLASS64
        assert struct.unpack_from("<H", binary, 18) == (MACHINES["aarch64"],)
    assert PT_INTERP not in dict(headers(native["iostrata/record/iostrata-record"]))
    assert not needed_by(native["iostrata/libnative.so"])


@pytest.mark.parametrize("name", ["recorder", "deb12", "deb13", "rpm"])
def test_what_is_in_it_is_told(name: str) -> None:
    text = (ROOT / f"packaging/build/{name}.cdx.json").read_text()
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema").SchemaVersion.V1_6
    assert validation.JsonStrictValidator(schema).validate_str(text) is None
    parts = {part["name"]: part["version"] for part in json.loads(text)["components"]}
    if name != "recorder":
        assert {"iostrata", "msgspec", "numpy", "typer"} <= set(parts)
        assert "backports-zstd" in {part.replace(".", "-") for part in parts}
        return
    ours = {"libbpf-dev", "libelf-dev", "libzstd-dev", "zlib1g-dev", "libc6-dev"}
    said = run("dpkg-query", "--show", "--showformat=${Package} ${Version}\n", *ours)
    assert dict(line.split() for line in said.splitlines()).items() <= parts.items()


def test_others_take_what_is_declared_for_them() -> None:
    tools = Path(sys.executable).parent
    run(tools / "kubernetes-validate", "--strict", ROOT / "packaging/daemonset.yaml")
    workflow = ROOT / ".github/workflows/release.yml"
    run(tools / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", workflow)


def test_the_same_bytes_elsewhere_and_later(tmp_path: Path) -> None:
    if run("git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no"):
        pytest.skip("what is in dist is not what is committed")
    again = tmp_path / "elsewhere/again"
    run("git", "clone", "--quiet", ROOT, again)
    run("make", "-C", again / "bpf", timeout_s=1800)
    if ON_X86_64:
        (again / ".stamps").mkdir()
        (again / ".stamps/sysroot-arm64").symlink_to(ROOT / ".stamps/sysroot-arm64")
        for place in ("bpf", "tracer/native"):
            run("make", "-C", again / place, "ARCH=arm64", timeout_s=1800)
    named = 'hostname elsewhere && exec "$@"'
    run("unshare", "--uts", "sh", "-c", named, "sh", "env", "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8",
        "make", "-C", again / "packaging", f"BIN={Path(sys.executable).parent}",
        timeout_s=3600)  # fmt: skip
    sums = "SHA256SUMS"
    assert (again / "dist" / sums).read_text() == (DIST / sums).read_text()
    assert len((DIST / sums).read_text().splitlines()) == 6 + ON_X86_64
    subprocess.run(["sha256sum", "--check", "--quiet", sums], cwd=DIST, check=True)
