# SPDX-License-Identifier: Apache-2.0
"""Linters are tests: formats, types, licences, and which part may import which."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "tracer" / "iostrata"

# What each part of the package may import of the others; a part may always import itself.
FOUNDATION: Final = frozenset(
    {"cgroups", "columns", "crew", "errors", "foreign", "mask", "model", "native", "units"}
)
STAGES: Final = FOUNDATION | {"trace", "layers", "stitch", "hops", "attribute"}
ALLOWED: Final = {
    "cgroups": frozenset[str](),
    "columns": frozenset({"native"}),
    "crew": frozenset[str](),
    "model": frozenset({"columns"}),
    "errors": frozenset[str](),
    "foreign": frozenset[str](),
    "large": frozenset({"native"}),
    "mask": frozenset[str](),
    "memory": frozenset[str](),
    "native": frozenset[str](),
    "units": frozenset[str](),
    "trace": FOUNDATION | {"large"},
    "layers": FOUNDATION | {"trace"},
    "clock": FOUNDATION | {"trace"},
    "stitch": STAGES - {"attribute", "hops"},
    "hops": STAGES - {"attribute"} | {"clock"},
    "attribute": STAGES - {"trace", "hops"},
    "report": FOUNDATION | {"layers"},
    "recording": FOUNDATION | {"trace"},
    "script": FOUNDATION | {"trace"},
    "record": FOUNDATION | {"layers", "recording", "trace"},
    "analysis": STAGES | {"clock", "large", "recording"},
    "shelf": FOUNDATION | {"analysis", "recording", "trace"},
    "export": STAGES | {"analysis", "__version__"},
    "bench": STAGES | {"analysis", "recording", "report", "workload"},
    "workload": frozenset({"errors"}),
    "live": STAGES | {"analysis", "recording"},
    "library": STAGES | {"analysis", "export", "recording"},
    "lab": STAGES | {"analysis", "recording", "record", "report"},
}


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def tracked() -> list[Path]:
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("no git checkout")
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return [path for path in paths if path.is_file()]


def test_ruff_finds_nothing() -> None:
    run(sys.executable, "-m", "ruff", "check", ".")


def test_ruff_would_format_nothing() -> None:
    run(sys.executable, "-m", "ruff", "format", "--check", "--diff", ".")


def test_types() -> None:
    run(sys.executable, "-m", "mypy")


def test_c_format() -> None:
    sources = [str(path) for path in tracked() if path.suffix in (".c", ".h")]
    run(str(Path(sys.executable).with_name("clang-format")), "--dry-run", "--Werror", *sources)


# Files whose format has no comments, and those that others compare byte by byte.
UNMARKED: Final = frozenset({".json", ".txt", ".csv", ".license", ".typed"})
# Recorded as they are, and others' work with a licence of its own beside it.
EXEMPT: Final = frozenset({"recordings", "recordings_of_reads", "uplot"})


def test_every_file_has_its_licence() -> None:
    unmarked = [path.relative_to(ROOT) for path in tracked() if not _marked(path)]
    assert not unmarked


def _marked(path: Path) -> bool:
    name = path.relative_to(ROOT)
    if path.suffix in UNMARKED or path.name.startswith("LICENSE") or EXEMPT & set(name.parts):
        return True
    licence = "GPL-2.0-only OR BSD-2-Clause" if name.parts[0] == "bpf" else "Apache-2.0"
    head = path.read_text(errors="replace")[:400]
    return f"SPDX-License-Identifier: {licence}" in head


def imports() -> Iterator[tuple[str, str, Path]]:
    """Which part imports which other part of the package, and where."""
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
                if node.module == "iostrata":
                    names = [f"iostrata.{name.name}" for name in node.names]
            elif isinstance(node, ast.Import):
                names = [name.name for name in node.names]
            for name in names:
                if name.startswith("iostrata."):
                    yield part, name.split(".")[1], path


def test_imports_run_one_way() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {part} imports {other}"
        for part, other, path in imports()
        if part in ALLOWED and other != part and other not in ALLOWED[part] | {"__version__"}
    ]
    assert not wrong, "\n".join(wrong)


# Generated from bpf/events.h: what is in it is the recordings' format, for everyone.
FORMAT: Final = "iostrata.trace.layout"


def inner_imports() -> Iterator[tuple[Path, str, str]]:
    """What a part has of another one: from which module, which name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.module or node.module == FORMAT:
                continue
            words = node.module.split(".")
            if words[0] == "iostrata" and len(words) > 1 and words[1] != part:
                yield from ((path, node.module, name.name) for name in node.names)


def public(module: str) -> set[str]:
    """``__all__`` of a part that is a folder; one that is a file is public as a whole."""
    init = PACKAGE.joinpath(*module.split(".")[1:], "__init__.py")
    tree = ast.parse(init.read_text()).body if init.exists() else []
    for node in tree:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def test_a_part_is_had_by_its_front() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name} of {module}"
        for path, module, name in inner_imports()
        if module.count(".") > 1
        or ((PACKAGE / module.split(".")[1]).is_dir() and name not in public(module))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_part_has_its_rule() -> None:
    parts = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")}
    named = {part.removesuffix(".py") for part in parts}
    assert named - {"__init__", "__main__", "cli"} == set(ALLOWED)


@pytest.mark.parametrize("word", ["util", "helper", "common", "misc", "manager", "handler"])
def test_no_file_is_named_after_nothing(word: str) -> None:
    named = [path for path in tracked() if word in path.name.lower()]
    assert not named
