# SPDX-License-Identifier: Apache-2.0
"""doctor: what is seen, by what, and what to do about the rest."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from iostrata import native
from iostrata.cli import doctor, status_of
from iostrata.record import Refusal
from iostrata.record.diagnosis import Diagnosis, Probe, verdicts
from iostrata.record.mounts import Carried, NetworkMount
from iostrata.record.route import Connection, Route
from iostrata.record.system import Disk, system
from tests.record.test_diagnosis import diagnosis


def with_disks(found: Diagnosis) -> Diagnosis:
    disks = (
        Disk("vda", "mq-deadline", "write back", "no", "yes", ()),
        Disk("loop0", "none", "write through", "no", "no", ("/a.img",)),
        Disk("odd", "", "", "", "", ()),
    )
    return replace(found, machine=replace(found.machine, disks=disks))


@pytest.mark.parametrize(("complete", "status"), [("ok", 0), ("EPERM", 4)])
def test_status_and_width(
    complete: str,
    status: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "diagnose", lambda: with_disks(diagnosis(complete)))
    assert status_of(["doctor"]) == status
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("syscall     yes        sys_enter_write") for line in lines)
    assert any("xfs_file_fsync: ENOENT" in line for line in lines)
    assert any("block_rq_insert does not fire" in line for line in lines)
    assert any("followed by a" in line for line in lines)


def test_mounts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    mount = NetworkMount("/mnt/nas", "nas:/export", "192.0.2.5", 2049, "tcp")
    named = replace(mount, mount_point="/mnt/\x1b[2J", source="nas:/\x9b31m")
    route = Route("eth0", "192.0.2.1", "192.0.2.9")
    connections = (Connection(900, 312, 20, 250, 1448, 0), Connection(901, 298, 20, 240, 1448, 0))
    mounts = (
        Carried(mount, route, connections),
        Carried(mount, route, ()),
        Carried(mount, None, ()),
        Carried(named, None, ()),
    )
    monkeypatch.setattr(doctor, "diagnose", lambda: replace(diagnosis(), mounts=mounts))
    assert status_of(["doctor"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "/mnt/nas of nas:/export, to 192.0.2.5 by eth0, gateway 192.0.2.1" in text
    assert "TCP port 900: RTT 312 us, least 250 us, TCP port 901: RTT 298 us" in text
    assert "no TCP connection to port 2049" in text
    assert "192.0.2.5 is not reached from here" in text
    assert r"/mnt/\x1b[2J of nas:/\x9b31m" in text
    assert status_of(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["mounts"]
    assert found[0]["route"] == {
        "interface": "eth0",
        "gateway": "192.0.2.1",
        "local_address": "192.0.2.9",
    }
    assert found[0]["connections"][1]["min_rtt_us"] == 240
    assert found[2]["route"] is None


def test_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    refused = replace(diagnosis(), refusal=Refusal("no rights", "be root"), verdicts=verdicts([]))
    monkeypatch.setattr(doctor, "diagnose", lambda: refused)
    assert status_of(["doctor"]) == 4
    out = capsys.readouterr().out
    assert "eBPF        refused: no rights\n  try       be root\n" in out


def test_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "diagnose", lambda: with_disks(diagnosis()))
    assert status_of(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "iostrata.doctor/1"
    assert document["observable"] is True
    assert document["layers"][0]["layer"] == "syscall"
    assert document["disks"][1]["stacked_on"] == ["/a.img"]


@pytest.mark.parametrize("mounted", [False, True])
def test_what_ties_clocks_is_missing(
    mounted: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = [Probe("kvm_exit", ("kvm_exit",), "kvm", "ok", "")]
    host = replace(system(), debugfs=mounted)
    monkeypatch.setattr(doctor, "diagnose", lambda: Diagnosis(host, None, verdicts(probes)))
    status_of(["doctor"])
    assert ("debugfs is not mounted" in capsys.readouterr().out) is not mounted


def test_programs_refused_alike_are_named_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("virtio_add", "virtio_interrupt")
    probes = [Probe(name, (), "virtio", "EPERM", "forbidden") for name in names]
    monkeypatch.setattr(doctor, "diagnose", lambda: Diagnosis(system(), None, verdicts(probes)))
    status_of(["doctor"])
    assert "virtio_add, virtio_interrupt: EPERM, forbidden\n" in capsys.readouterr().out


@pytest.mark.parametrize("library", [None, native.LIBRARY or object()])
def test_an_analysis_without_its_c_is_said(
    library: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "diagnose", diagnosis)
    monkeypatch.setattr(native, "LIBRARY", library)
    status_of(["doctor"])
    assert ("libnative.so" in capsys.readouterr().out) == (library is None)
