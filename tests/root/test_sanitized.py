# SPDX-License-Identifier: Apache-2.0
"""The recorder with its memory watched: a mistake ends it, whatever it would have recorded."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

BPF = Path(__file__).parents[2] / "bpf"
# Its own filter of system calls refuses what looks for leaks.
WATCHED = os.environ | {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
WRITES = ["dd", "if=/dev/zero", "of=data", "bs=8k", "count=50", "oflag=dsync", "status=none"]


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sanitized") / "build"
    if not (BPF / "build" / "iostrata.skel.h").exists():
        pytest.skip("the recorder was not built here")
    # What BPF runs is the same.
    shutil.copytree(BPF / "build", out, ignore=shutil.ignore_patterns("record", "iostrata-record"))
    words = [
        "make",
        "-s",
        "-j2",
        "-C",
        str(BPF),
        f"OUT={out}",
        "SANITIZE=address,undefined",
        "CFLAGS=-O1 -g",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return out / "iostrata-record"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--probes"], 0),
        (["-o", "t", "--why", "--who", "--detail", "--stats", "--", *WRITES], 0),
        (["-o", "t", "--force", "--ringbuf", "--no-names", "--buffer", "4", "--", *WRITES], 0),
        (["-o", "t", "--force", "--compress", "--", *WRITES], 0),
        (["-o", "t", "--force", "--path", "--device", "1:1", "--duration", "1.2"], 0),
        (["-o", "t", "--force", "--comm", "x" * 300, "--cgroup", "/", "--duration", "0.1"], 0),
        (["-o", "t"], 125),
        (["-o", "t", "--pid", "1", "--", "x" * 5000], 126),
        (["-o", "t", "--force", "--", "./nothing"], 127),
        (["-o", "no/where", "--", "true"], 125),
        (["-o", "t", "--duty", "", "--duration", "1e400"], 125),
        (["-o", "t", "--status-fd", "999", "--", "true"], 125),
        (["-o", "t", "--device", "4096:0", "--duration", "0.1"], 125),
        (["-o", "t", "--device", "99999999999:1", "--duration", "0.1"], 125),
    ],
)
def test_nothing_is_touched_that_is_not_its_own(
    sanitized: Path, disk: Path, words: list[str], status: int
) -> None:
    (disk / "t").mkdir()
    done = subprocess.run(
        [sanitized, *words], cwd=disk, env=WATCHED, capture_output=True, text=True, check=False
    )
    assert "Sanitizer" not in done.stderr, done.stderr
    assert "runtime error" not in done.stderr, done.stderr
    assert done.returncode == status, done.stderr
