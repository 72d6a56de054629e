# SPDX-License-Identifier: Apache-2.0
"""A machine that stands apart as its recording is not whole: that is said, as of any other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.model import Quality
from iostrata.recording import open_recording

RECORDINGS = Path(__file__).parents[1] / "recordings"
KVM_NFS = RECORDINGS / "kvm_nfs"
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
    absent = ("guest: cpu_0 and 1 more: missing",) * (left == "none")
    assert quality.damage == (*absent, NO_RECORDER)


def test_one_that_is_whole_has_no_damage() -> None:
    assert analyse(open_recording(KVM_NFS)).quality.damage == ()


def quality_of(path: Path, machines: Mapping[str, tuple[str, str]]) -> Quality:
    """Of machines, by name: their role, and whose trace they have."""
    described = []
    for name, (role, source) in machines.items():
        shutil.copytree(RECORDINGS / source, path / name)
        described.append({"name": name, "role": role, "directory": name})
    told = {"format": "iostrata.recording/1", "created": "", "machines": described}
    (path / "recording.json").write_text(json.dumps(told))
    return analyse(open_recording(path)).quality


CHAIN = {role: (role, f"kvm_nfs/{role}") for role in ("guest", "host", "server")}
CLIENT = {role: (role, f"nfs/{role}") for role in ("host", "server")}
OWN = "nothing ties its events to another machine's; its own writes are in the table, and followed "


def test_a_guest_of_another_host_is_not_followed(tmp_path: Path) -> None:
    """It asked a host for all that it wrote: none of these is that one."""
    quality = quality_of(tmp_path, {"other": ("guest", "nvme_vfio/guest"), **CHAIN})
    assert quality.apart == (f"other: {OWN}to no other machine",)
    assert quality.unfollowed == 47


def test_a_guest_beside_a_client_is_not_followed(tmp_path: Path) -> None:
    """The host has writes of its own, and a server."""
    quality = quality_of(tmp_path, {"guest": CHAIN["guest"], **CLIENT})
    assert quality.apart == (f"guest: {OWN}to no other machine",)
    assert quality.unfollowed == 59


def test_a_client_of_another_server_is_not_followed(tmp_path: Path) -> None:
    """What it sent over the network leads to none of these."""
    quality = quality_of(tmp_path, {"client": ("local", "nfs/host"), **CHAIN})
    assert [line.partition(":")[0] for line in quality.apart] == ["client"]
    assert quality.unfollowed == 199


def test_where_nothing_is_tied_guests_are_apart(tmp_path: Path) -> None:
    quality = quality_of(tmp_path, {"guest": CHAIN["guest"], "host": ("host", "xfs_log/local")})
    assert quality.apart == (f"guest: {OWN}to no other machine",)
    assert (quality.crossings, quality.unfollowed) == ((), 0)


@pytest.mark.parametrize("others", [{}, CHAIN])
def test_a_machine_with_a_disk_of_its_own_is_not_apart(
    others: dict[str, tuple[str, str]], tmp_path: Path
) -> None:
    alone = {"a": ("local", "four_methods/local"), "b": ("local", "xfs_log/local")}
    quality = quality_of(tmp_path, {**alone, **others})
    assert (quality.apart, quality.unfollowed) == ((), 0)
