# SPDX-License-Identifier: Apache-2.0
"""Paths as the engines' documentation has them: who runs in that cgroup."""

from __future__ import annotations

import pytest

from iostrata.cgroups import NOT_KNOWN, container_of, machines_own, virtual_machine_of

ID = "3f2a91bc77de" + "0" * 52
POD = "kubepods-burstable-pod1b2c.slice"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"/system.slice/docker-{ID}.scope", "docker 3f2a91bc77de"),
        (f"/docker/{ID}", "docker 3f2a91bc77de"),
        (f"/machine.slice/libpod-{ID}.scope/container", "podman 3f2a91bc77de"),
        (f"/kubepods.slice/{POD}/cri-containerd-{ID}.scope", "containerd 3f2a91bc77de"),
        (f"/kubepods.slice/{POD}/crio-{ID}.scope", "cri-o 3f2a91bc77de"),
        (f"/kubepods/burstable/pod1b2c/{ID}", "kubernetes 3f2a91bc77de"),
        (f"/somebody/{ID}", "container 3f2a91bc77de"),
        ("/lxc.payload.db/system.slice/mariadb.service", "lxc db"),
        (f"/lxc.payload.db/docker/{ID}", "lxc db"),
        ("/machine.slice/systemd-nspawn@db-1.service/payload", "nspawn db-1"),
        (r"/machine.slice/machine-lxc\x2d7\x2ddb.scope", "lxc db"),
        (r"/machine.slice/machine-qemu\x2d7\x2ddb.scope", ""),
        # The escape of what is no letter stays one.
        (r"/machine.slice/machine-lxc\x2d7\x2d\x1b]db.scope", r"lxc \x1b]db"),
        ("/system.slice/postgresql@15-main.service", ""),
        ("/user.slice/user-1000.slice/session-3.scope", ""),
        ("/", ""),
        ("", ""),
        (NOT_KNOWN, NOT_KNOWN),
    ],
)
def test_containers(path: str, name: str) -> None:
    assert container_of(path) == name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (r"/machine.slice/machine-qemu\x2d7\x2ddb\x2d1.scope/libvirt/emulator", "db-1"),
        ("/machine/qemu-3-db.libvirt-qemu/vcpu0", "db"),
        ("/machine/db.libvirt-qemu", "db"),
        ("/qemu.slice/100.scope", "100"),
        (f"/docker/{ID}", ""),
        ("/user.slice/100.scope", ""),
        ("/", ""),
    ],
)
def test_virtual_machines(path: str, name: str) -> None:
    assert virtual_machine_of(path) == name


@pytest.mark.parametrize(
    ("path", "own"),
    [
        (r"/machine.slice/machine-qemu\x2d7\x2ddb.scope/libvirt/vcpu0",
         r"/machine.slice/machine-qemu\x2d7\x2ddb.scope"),
        ("/machine/qemu-3-db.libvirt-qemu/vcpu0", "/machine/qemu-3-db.libvirt-qemu"),
        ("/qemu.slice/100.scope/below", "/qemu.slice/100.scope"),
        ("/user.slice/100.scope/below", "/user.slice/100.scope/below"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_groups_of_a_machines_threads_are_the_machines(path: str, own: str) -> None:
    assert machines_own(path) == own
