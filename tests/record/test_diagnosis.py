# SPDX-License-Identifier: Apache-2.0
"""The recorder's table of probes becomes a verdict on each layer; sysfs becomes facts."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from iostrata.errors import PermissionDenied
from iostrata.record import permission
from iostrata.record.diagnosis import Diagnosis, read_probes, verdicts
from iostrata.record.requirements import blind_spots
from iostrata.record.system import Disk, system

ROWS = (
    ("program", "points", "layer", "result", "text"),
    ("syscall_enter", "sys_enter_write,sys_enter_fsync", "syscall", "ok", ""),
    ("syscall_blind", "sys_enter_msync", "syscall", "unused", "a better program is there"),
    ("block_rq_issue", "block_rq_issue", "block", "ok", ""),
    ("block_rq_complete", "block_rq_complete", "block", "COMPLETE", ""),
    ("xfs_file_fsync", "xfs_file_fsync", "xfs", "ENOENT", "no such tracepoint"),
    ("aio_submit", "sys_enter_io_submit", "aio", "E2BIG", "too large"),
    ("virtio_add", "virtqueue_add_sgs", "virtio", "EPERM", "not of functions"),
    ("nfs_sync_enter", "nfs_fsync_enter", "nfs", "ok", ""),
    ("nfs_write_end", "nfs_writeback_done", "nfs", "EINVAL", "failed to load"),
    ("rpc_send", "rpc_xdr_sendto", "rpc", "ESRCH", "not in this kernel"),
    ("kvm_exit", "kvm_exit", "kvm", "ENOENT", "no such tracepoint"),
)


def diagnosis(complete: str = "ok") -> Diagnosis:
    lines = ["\t".join(row).replace("COMPLETE", complete) for row in ROWS]
    probes = read_probes(lines)
    return Diagnosis(system(), None, verdicts(probes))


def test_verdicts() -> None:
    seen = {verdict.visibility.name: verdict.seen for verdict in diagnosis().verdicts}
    assert seen == {
        "syscall": "yes",
        "32-bit": "no",
        "reads": "no",
        "faults": "no",
        "fs": "no",
        "pause": "no",
        "journal": "no",
        "block": "yes",
        "device": "yes",
        "wakeup": "no",
        "aio": "no",
        "io_uring": "no",
        "virtio": "no",
        "nfs": "partly",
        "packets": "no",
        "rpc": "absent",
        "svc": "absent",
        "kvm": "absent",
        "loop": "absent",
        "nvme": "absent",
        "nvmet": "absent",
        "iscsi": "absent",
        "rbd": "absent",
        "librbd": "absent",
        "osd": "absent",
        "bluestore": "absent",
        "target": "absent",
        "socket": "absent",
        "nbd": "absent",
        "fuse": "absent",
        "vfio": "absent",
        "virtiofs": "absent",
        "ninep": "absent",
        "data": "no",
    }
    assert diagnosis().observable


def test_what_a_machine_does_not_show_is_said_once() -> None:
    """Two layers of one daemon."""
    rows = (("osd_work", "osd_work", "osd"), ("bluestore_done", "bluestore_done", "bluestore"))
    probes = read_probes("\t".join((*row, "ESRCH", "no process")) for row in rows)
    said = blind_spots("server", verdicts(probes))
    assert said.count("no ceph-osd runs here") == 1


def test_a_device_takes_both_ends() -> None:
    found = diagnosis(complete="EPERM")
    seen = {verdict.visibility.name: verdict.seen for verdict in found.verdicts}
    assert (seen["block"], seen["device"]) == ("partly", "no")
    assert not found.observable


def test_nothing_was_tried() -> None:
    assert {verdict.seen for verdict in verdicts([])} == {"not tried"}


def test_disks(tmp_path: Path) -> None:
    for name, size in {"vda": "9", "loop1": "0", "zram0": "9", "vda1": "9", "dm-0": "9"}.items():
        queue = tmp_path / "class" / "block" / name / "queue"
        queue.mkdir(parents=True)
        (queue.parent / "size").write_text(f"{size}\n")
        (queue / "scheduler").write_text("none [mq-deadline] kyber\n")
        (queue / "write_cache").write_text("write back\n")
        (queue / "fua").write_text("0\n")
    (tmp_path / "class/block/vda1/partition").write_text("1\n")
    (tmp_path / "class/block/dm-0/slaves/vda").mkdir(parents=True)
    dm, vda = system(tmp_path).disks
    assert vda == Disk("vda", "mq-deadline", "write back", "no", "", ())
    assert dm.stacked_on == ("vda",)


@pytest.mark.parametrize(
    ("value", "refused", "without"),
    [
        # As setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep writes it.
        ("0100000204000000000000 00c0000000 00000000", False, 4),
        # Permitted only: a program that knows nothing of them does not have them.
        ("0000000204000000000000 00c0000000 00000000", True, 5),
        ("01000002", True, 5),
        ("", True, 5),
    ],
)
def test_the_recorders_file_may_have_capabilities(
    value: str, refused: bool, without: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "status").write_text("CapEff:\t0\n")
    (tmp_path / "btf").write_bytes(permission.COUNTED_BY_CGROUP)
    monkeypatch.setattr(permission, "STATUS", tmp_path / "status")
    monkeypatch.setattr(permission, "BTF", tmp_path / "btf")
    monkeypatch.setattr(permission, "find_recorder", lambda: tmp_path / "status")
    monkeypatch.setattr("os.getxattr", lambda file, name: bytes.fromhex(value))
    assert (permission.refusal() is not None) == refused
    assert len(permission.lacking()) == without


@pytest.mark.parametrize(
    ("btf", "most", "told"),
    [
        (b"\0bpf_func_id\0", 65536, True),
        (b"\0bpf_func_id\0", resource.RLIM_INFINITY, False),
        (b"\0bpf_func_id\0BPF_FUNC_ktime_get_coarse_ns\0", 65536, False),
    ],
)
def test_memory_may_have_to_be_locked(
    btf: bytes, most: int, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Linux 5.11 all of a map is, and few may lock as much as a ring is."""
    (tmp_path / "status").write_text("CapEff:\t000000c000000000\n")
    (tmp_path / "btf").write_bytes(btf)
    monkeypatch.setattr(permission, "STATUS", tmp_path / "status")
    monkeypatch.setattr(permission, "BTF", tmp_path / "btf")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (0, most))
    assert ("CAP_SYS_RESOURCE" in permission.lacking()) == told
    (tmp_path / "status").write_text("CapEff:\t000000c001000000\n")
    assert "CAP_SYS_RESOURCE" not in permission.lacking()


@pytest.mark.parametrize(
    ("capabilities", "btf", "why"),
    [
        ("0000000000000000", True, "needs root"),
        ("0000000000200000", True, "needs root"),
        ("000000c000000000", True, None),
        ("0000008000000000", True, "needs root"),
        ("000001ffffffffff", False, "no BTF"),
    ],
)
def test_refusal(
    capabilities: str,
    btf: bool,
    why: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")
    monkeypatch.setattr(permission, "STATUS", tmp_path / "status")
    monkeypatch.setattr(permission, "BTF", tmp_path / ("status" if btf else "none"))
    found = permission.refusal()
    if why is None:
        assert found is None
    else:
        assert found
        assert why in found.why
        with pytest.raises(PermissionDenied, match=why):
            permission.check_ebpf()
