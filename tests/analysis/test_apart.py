# SPDX-License-Identifier: Apache-2.0
"""A machine that stands apart as its recording is not whole: that is said, as of any other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording

KVM_NFS = Path(__file__).parents[1] / "recordings" / "kvm_nfs"
NO_RECORDER = "guest: recorder: missing or empty: what was lost is not known"


@pytest.mark.parametrize("left", ["empty", "none"])
def test_a_guest_that_died_before_anything_was_on_its_disk(left: str, tmp_path: Path) -> None:
    """The table is of what its host did for it; that the guest wrote nothing is not so."""
    shutil.copytree(KVM_NFS, tmp_path / "found")
    for path in (tmp_path / "found" / "guest").iterdir():
        if path.name.startswith(("cpu_", "recorder")):
            path.write_bytes(b"") if left == "empty" else path.unlink()
    quality = analyse(open_recording(tmp_path / "found")).quality
    assert [line.partition(":")[0] for line in quality.apart] == ["guest"]
    assert quality.damage == (NO_RECORDER,)


def test_one_that_is_whole_has_no_damage() -> None:
    assert analyse(open_recording(KVM_NFS)).quality.damage == ()
