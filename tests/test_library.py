# SPDX-License-Identifier: Apache-2.0
"""``import iostrata``: what it offers, what it costs, and that it is typed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import iostrata
from iostrata import errors
from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.export.rows import columns
from iostrata.model import Writes
from iostrata.recording import open_recording
from iostrata.report import json
from tests.cli.recordings import lossy_recording, small_recording
from tests.synthetic import World, write

ROOT: Final = Path(__file__).parents[1]
RECORDING: Final = ROOT / "tests" / "recordings" / "four_methods"
PAGE: Final = ROOT / "docs" / "library.md"


def test_the_surface() -> None:
    assert iostrata.__all__ == sorted(iostrata.__all__)
    assert set(iostrata.__all__) == {"Breakdown", "Recording", "__version__", "errors", "open"}
    assert set(iostrata.__all__) <= set(dir(iostrata))
    for name in iostrata.__all__:
        assert getattr(iostrata, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'close'"):
        _ = iostrata.close  # type: ignore[attr-defined]


def test_what_is_public_is_documented() -> None:
    public = (iostrata, errors, iostrata.open, iostrata.Recording, iostrata.Recording.analyse,
              iostrata.Breakdown, iostrata.Breakdown.to_arrow)  # fmt: skip
    assert all(each.__doc__ for each in public)
    for named in (iostrata.Recording, iostrata.Breakdown):
        assert all(f"``{field.name}``" in (named.__doc__ or "") for field in fields(named))
    page = PAGE.read_text()
    assert all(f"`{field.name}`" in page for field in fields(Writes))
    assert all(f"`{field.name}`" in page for field in fields(iostrata.Breakdown))


def test_every_error_is_in_the_tree() -> None:
    """As drawn: each below what it is a kind of, with its exit status."""
    drawn = []
    for line in (errors.__doc__ or "").splitlines():
        name, _, rest = line.lstrip("│├└─ ").partition(" ")
        if isinstance(getattr(errors, name, None), type):
            drawn.append((line.index(name) // 4, name, rest.split()[0]))
    found = []

    def walk(error: type[errors.IostrataError], depth: int) -> None:
        found.append((depth, error.__name__, str(error.status)))
        for kind in error.__subclasses__():
            if kind.__module__ == errors.__name__:
                walk(kind, depth + 1)

    walk(errors.IostrataError, 0)
    assert drawn == found


def test_importing_it_loads_nothing() -> None:
    script = "import sys; before = set(sys.modules); import iostrata; iostrata.__version__; "
    script += "print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    found = {name for name in loaded.stdout.split() if name.startswith(("iostrata", "numpy"))}
    assert found == {"iostrata"}
    assert not {"numpy", "msgspec", "rich", "typer"} & set(loaded.stdout.split())


def test_columns_are_as_documented() -> None:
    """Law 1 holds in them, and they are what the command line prints."""
    breakdown = iostrata.open(str(RECORDING)).analyse()
    assert isinstance(breakdown, iostrata.Breakdown)
    count = len(breakdown.writes)
    for field in fields(Writes):
        column = getattr(breakdown.writes, field.name)
        if isinstance(column, np.ndarray):
            assert (column.dtype, column.shape) == (np.int64, (count,)), field.name
    for name, codes in breakdown.writes.codes.items():
        assert codes.dtype == np.int32
        assert codes.max() < len(breakdown.writes.names[name])
    assert breakdown.time_ns.shape == (len(breakdown.layers), count)
    whole = breakdown.time_ns.sum(axis=0) + breakdown.residual_ns
    np.testing.assert_array_equal(whole, breakdown.writes.latency_ns)
    same = summarise(analyse(open_recording(RECORDING)))
    assert json.render(summarise(breakdown)) == json.render(same)


def test_what_a_recording_tells() -> None:
    recording = iostrata.open(RECORDING)
    assert isinstance(recording, iostrata.Recording)
    assert recording.path == RECORDING
    assert [(machine.name, machine.role) for machine in recording.machines] == [("local", "local")]


def test_to_arrow(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    breakdown = iostrata.open(small_recording(tmp_path / "machine")).analyse()
    table = breakdown.to_arrow()
    assert table.num_rows == len(breakdown.writes) == 40
    assert table.column_names == [column.name for column in columns(breakdown)]
    assert table["method"].to_pylist()[:2] == ["open_datasync", "fdatasync"]
    np.testing.assert_array_equal(table["device_data_ns"].to_numpy(), breakdown.time_ns[
        [layer.name for layer in breakdown.layers].index("device.data")])  # fmt: skip


def test_to_arrow_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    breakdown = iostrata.open(small_recording(tmp_path / "machine")).analyse()
    with pytest.raises(errors.MissingPackage, match="needs pyarrow") as raised:
        breakdown.to_arrow()
    assert raised.value.hint == 'pip install "iostrata[parquet]"'


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(errors.RecordingError, match="does not exist"):
        iostrata.open(tmp_path / "nowhere")
    with pytest.raises(errors.NothingToAnalyse):
        iostrata.open(write(World(), tmp_path / "empty")).analyse()


def test_a_doubtful_recording_says_so(tmp_path: Path) -> None:
    assert iostrata.open(lossy_recording(tmp_path / "machine")).analyse().quality.doubtful


SCRIPT: Final = """\
import iostrata

reveal_type(iostrata.__version__)
reveal_type(iostrata.open("x").path)
reveal_type(iostrata.open("x").analyse().time_ns)
reveal_type(iostrata.errors.RecordingError("x").hint)
"""


def test_its_types_reach_who_installs_it(tmp_path: Path) -> None:
    """By py.typed: without that, all would be Any."""
    (tmp_path / "script.py").write_text(SCRIPT)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", f"--cache-dir={ROOT}/.mypy_cache/library", "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line.partition("Revealed type is ")[2] for line in checked.stdout.splitlines()]
    version, path, times, hint, _ = told
    assert (version, path, hint) == ('"str"', '"pathlib.Path"', '"str"'), checked.stdout
    assert "numpy.ndarray" in times
    assert "int64" in times or "signedinteger" in times
