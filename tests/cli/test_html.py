# SPDX-License-Identifier: Apache-2.0
"""html: a page from any recording that can be analysed, and a reason where none can."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.cli import status_of
from tests.builder import TraceBuilder
from tests.cli.recordings import DISK, lossy_recording, small_recording, synced
from tests.synthetic import World, Writer, write

RECORDINGS = Path(__file__).parents[1] / "recordings"


def test_a_page_and_overwriting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = str(small_recording(tmp_path / "machine"))
    file = tmp_path / "page.html"
    assert status_of(["html", recording, "-o", str(file)]) == 0
    assert capsys.readouterr().err == f"iostrata: wrote {file}\n"
    text = file.read_text()
    assert "40 synchronous writes by writer (100)" in text
    assert "scheduler mq-deadline, write back, no FUA" in text
    assert status_of(["html", recording, "-o", str(file)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert status_of(["html", recording, "-o", str(file), "--force", "-q"]) == 0
    assert file.read_text() == text


def test_file_systems_are_those_that_store(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert status_of(["html", str(RECORDINGS / "kvm_nfs"), "-o", str(file), "-q"]) == 0
    text = file.read_text()
    assert "<dt>/mnt/data</dt><dd>ext4 on vdb" in text
    assert "<dt>/mnt/images</dt><dd>nfs4 on" in text
    assert "<dt>/proc</dt>" not in text
    assert "(none)" not in text


def test_a_single_write(tmp_path: Path) -> None:
    world = World()
    synced(Writer(world, 100, DISK, 1_000_000), 30_000)
    recording = write(world, tmp_path / "machine")
    assert status_of(["html", str(recording), "-o", str(tmp_path / "page.html")]) == 0
    text = (tmp_path / "page.html").read_text()
    assert "too few to tell a tail" in text
    assert "write 1 of 1, p50, p90, p99, slowest" in text


def test_losses_are_on_the_page(tmp_path: Path) -> None:
    recording = lossy_recording(tmp_path / "machine")
    assert status_of(["html", str(recording), "-o", str(tmp_path / "page.html")]) == 7
    assert "block_rq_issue (3)" in (tmp_path / "page.html").read_text()


def test_nothing_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TraceBuilder().write(tmp_path / "empty")
    for name, status in (("empty", 5), ("none", 3)):
        wish = ["html", str(tmp_path / name), "-o", str(tmp_path / "page.html")]
        assert status_of(wish) == status
        assert "\n  try: " in capsys.readouterr().err
    assert status_of(["html", str(tmp_path / "empty"), "-o", "/nonexistent/x"]) == 2
    assert not (tmp_path / "page.html").exists()
