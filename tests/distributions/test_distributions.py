# SPDX-License-Identifier: Apache-2.0
"""README's commands on a fresh Debian, in a root of its own made by debootstrap.

The kernel is this machine's, so what its recorder may is what it may here.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.distributions
ROOT = Path(__file__).parents[2]
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


def run(*command: str | Path, timeout_s: int) -> str:
    """What it says; it runs to its end, or the test fails with the last of it."""
    done = subprocess.run(
        [str(word) for word in command],
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", timeout=timeout_s,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def mirror() -> str:
    """Where this machine has its packages from: of several places that with the most."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    return statistics.mode(run(*words, timeout_s=60).split())


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def fresh(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A root with git and make, and a clone of what is committed."""
    if os.geteuid() or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap")
    root = tmp_path_factory.mktemp(request.param)
    run("debootstrap", "--variant=minbase", "--include=git,make,ca-certificates",
        request.param, root, mirror(), timeout_s=1800)  # fmt: skip
    # What this machine trusts, as between it and the world there may be a proxy.
    for name in (CERTIFICATES, "etc/resolv.conf"):
        if Path("/", name).exists():
            shutil.copyfile(Path("/", name), root / name)
    run("git", "clone", "--quiet", ROOT, root / "root/iostrata", timeout_s=300)
    mounted = []
    try:
        for name in ("proc", "sys", "dev"):
            run("mount", "--rbind", f"/{name}", root / name, timeout_s=60)
            mounted.append(root / name)
            run("mount", "--make-rslave", root / name, timeout_s=60)
        yield root
    finally:
        for place in mounted:
            subprocess.run(["umount", "--recursive", place], check=True)


@pytest.mark.parametrize("target", ["demo", "test"])
def test_a_command_of_the_readme_does_all_by_itself(fresh: Path, target: str) -> None:
    said = run("chroot", fresh, "make", "-C", "/root/iostrata", target, timeout_s=7000)
    assert {"demo": "synchronous writes", "test": " passed"}[target] in said


def test_the_same_source_gives_the_same_bytes(tmp_path: Path) -> None:
    built = []
    for name in ("a", "deeper/b"):
        run("git", "clone", "--quiet", ROOT, tmp_path / name, timeout_s=300)
        run("make", "-C", tmp_path / name / "bpf", timeout_s=600)
        built.append((tmp_path / name / "bpf/build/iostrata-record").read_bytes())
    assert built[0] == built[1]
