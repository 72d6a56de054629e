# SPDX-License-Identifier: Apache-2.0
"""README's commands on a fresh Debian: what its recorder may is what it may on this kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.roots import fresh_root, inside, run

pytestmark = pytest.mark.distributions
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def fresh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with git and make, and a clone of what is committed."""
    root = fresh_root(request.param, "git,make", tmp_path_factory.mktemp(request.param))
    run("git", "clone", "--quiet", ROOT, root / "root/iostrata")
    return root


@pytest.mark.parametrize("target", ["demo", "test"])
def test_a_command_of_the_readme_does_all_by_itself(fresh: Path, target: str) -> None:
    said = run(*inside(fresh, "make", "-C", "/root/iostrata", target), timeout_s=7000)
    assert {"demo": "\nown cost ", "test": " passed"}[target] in said


def test_the_same_source_gives_the_same_bytes(tmp_path: Path) -> None:
    built = []
    for name in ("a", "deeper/b"):
        run("git", "clone", "--quiet", ROOT, tmp_path / name)
        run("make", "-C", tmp_path / name / "bpf", timeout_s=600)
        built.append((tmp_path / name / "bpf/build/iostrata-record").read_bytes())
    assert built[0] == built[1]
