# SPDX-License-Identifier: Apache-2.0
"""What is plugged into nested machines: what QEMU and the machine below are told of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iostrata.lab import qemu
from iostrata.lab.read import ScenarioError, read_scenario
from iostrata.lab.scenario import Scenario
from iostrata.lab.stack import build
from iostrata.lab.topology import Machine
from tests.lab.scenarios import path_document, write
from tests.lab.test_stack import site, told

IMAGE = 3


def scenario(place: Path, /, **keys: Any) -> Scenario:
    found = {**path_document(), "variants": []}
    found["stack"].insert(0, {"kind": "null_blk", "name": "fast", "machine": "host"})
    image = found["stack"][IMAGE + 1]
    image.update(keys)
    found["stack"][IMAGE + 1] = {key: value for key, value in image.items() if value is not None}
    return read_scenario(write(found, place))


def log_of(place: Path, /, **keys: Any) -> list[str]:
    found = scenario(place, **keys)
    on, log = site(found)
    build(found.stack[: IMAGE + 2], on)
    begin = next(at for at, entry in enumerate(log) if "-t nfs -o" in entry)
    built = log[begin + 1 :]
    log.clear()
    build(found.stack[: IMAGE + 1], on)
    return [*built, "down", *log]


def test_qcow2_with_another_image_below(tmp_path: Path) -> None:
    log = log_of(tmp_path, format="qcow2", backing="raw")
    assert log[:2] == [
        "host: qemu-img create -q -f raw /mnt/image.img.below 256M",
        "host: qemu-img create -q -f qcow2 -b /mnt/image.img.below -F raw /mnt/image.img 256M",
    ]
    assert "'driver': 'qcow2'" in log[2]
    assert log[-2:] == ["host: rm /mnt/image.img", "host: rm /mnt/image.img.below"]
    assert "qemu-utils" in scenario(tmp_path, format="qcow2").packages("host")


def test_qcow2_that_has_its_clusters_from_the_start(tmp_path: Path) -> None:
    made = log_of(tmp_path, format="qcow2", preallocation="full")[0]
    assert made.endswith("-f qcow2  -o preallocation=full /mnt/image.img 256M")


def test_a_disk_of_the_machine_below(tmp_path: Path) -> None:
    """``Told`` says that every disk is /dev/vdb."""
    log = log_of(tmp_path, directory=None, device="fast")
    (at,) = told(log, "blockdev-add")
    assert "'driver': 'host_device', 'filename': '/dev/vdb'" in log[at]
    assert not any("truncate" in entry or "rm /" in entry for entry in log)


def test_what_qemu_reaches_by_itself(tmp_path: Path) -> None:
    nbd = {"driver": "nbd", "export": "x", "server": {"type": "inet", "host": "h", "port": "1"}}
    log = log_of(tmp_path, directory=None, transport=nbd)
    (at,) = told(log, "blockdev-add")
    assert f"'file': {nbd}" in log[at]


@pytest.mark.parametrize(
    ("cache", "direct", "write_cache"),
    [
        ("none", True, "on"),
        ("writeback", False, "on"),
        ("writethrough", False, "off"),
        ("directsync", True, "off"),
    ],
)
def test_caches(cache: str, direct: bool, write_cache: str, tmp_path: Path) -> None:
    log = log_of(tmp_path, cache=cache)
    node, device = told(log, "blockdev-add", "device_add")
    assert log[node].count(f"'direct': {direct}") == 2
    assert f"'write_cache': '{write_cache}'" in log[device]


def test_virtio_scsi(tmp_path: Path) -> None:
    """The disk is on a controller, which has the slot and the thread, and goes after it."""
    log = log_of(tmp_path, bus="virtio-scsi", iothread=True)
    plugged = [entry for entry in log if "device_add" in entry]
    assert "'driver': 'virtio-scsi-pci', 'bus': 'slot-image', 'iothread'" in plugged[0]
    assert "'driver': 'scsi-hd', 'bus': 'image-controller.0', 'drive': 'image'" in plugged[1]
    assert "iothread" not in plugged[1]
    gone = [entry for entry in log if "is deleted" in entry]
    assert gone == ["monitor: image is deleted", "monitor: image-controller is deleted"]
    found = scenario(tmp_path, bus="virtio-scsi")
    modules = {machine.name: found.modules(machine) for machine in found.machines}
    assert {"virtio_scsi", "sd_mod"} <= {*modules["guest"]}
    assert not {"virtio_scsi", "sd_mod"} & {*modules["host"]}


def test_nvme(tmp_path: Path) -> None:
    log = log_of(tmp_path, bus="nvme", aio="io_uring")
    node, device = told(log, "blockdev-add", "device_add")
    assert "'aio': 'io_uring'" in log[node]
    assert "'driver': 'nvme', 'bus': 'slot-image', 'drive': 'image', 'serial'" in log[device]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "in two places": ({"device": "fast"}, "directory: an image is in one place"),
    "in no place": ({"directory": None}, "directory: an image is in one place"),
    "on no disk": ({"directory": None, "device": "quick"}, "device: there is no device quick"),
    "raw over another": ({"backing": "raw"}, "backing: only a qcow2 file has one"),
    "raw and there from the start": (
        {"preallocation": "full"},
        "preallocation: only a qcow2 file has one",
    ),
    "of a format that nobody makes": (
        {"directory": None, "transport": {"driver": "null-co"}, "format": "qcow2"},
        "format: nobody makes an image there",
    ),
    "native through the page cache": (
        {"aio": "native", "cache": "writeback"},
        "aio: native is refused by a page cache",
    ),
    "a thread that is not there": ({"bus": "nvme", "iothread": True}, "iothread: QEMU's nvme"),
    "an unknown bus": ({"bus": "ide"}, "bus: Invalid enum value 'ide'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_is_named_with_file_and_key(wrong: str, tmp_path: Path) -> None:
    keys, problem = WRONG[wrong]
    with pytest.raises(ScenarioError) as error:
        scenario(tmp_path, **keys)
    assert str(error.value).startswith(f"{tmp_path}/test.toml: stack[{IMAGE + 1}].{problem}")


DEVICE: dict[str, Any] = {
    "kind": "device",
    "name": "share",
    "machine": "host",
    "guest": "guest",
    "driver": "vhost-user-fs-pci",
    "options": {"tag": "share"},
    "socket": "/run/served",
}


def test_a_device_that_a_process_of_the_host_serves(tmp_path: Path) -> None:
    found = path_document()
    found["machines"][0]["shared_memory"] = True
    found["stack"].append(DEVICE)
    scenario = read_scenario(write(found, tmp_path))
    assert scenario.slots("guest") == ["image", "share"]
    assert scenario.slots("host") == []
    on, log = site(scenario)
    build(scenario.stack[-1:], on)
    build((), on)
    assert "chardev-add" in log[0]
    assert "'path': '/run/served'" in log[0]
    assert "'driver': 'vhost-user-fs-pci', 'bus': 'slot-share', 'tag': 'share', 'chardev': 'share-socket'" in log[1]  # fmt: skip  # noqa: E501
    assert [entry.split()[1] for entry in log[2:]] == ["device_del", "share", "chardev-remove"]


def test_a_device_whose_memory_nobody_can_map(tmp_path: Path) -> None:
    found = path_document()
    found["stack"].append(DEVICE)
    at = len(found["stack"]) - 1
    with pytest.raises(ScenarioError, match=rf"stack\[{at}\].socket: nobody can map"):
        read_scenario(write(found, tmp_path))


def test_a_directory_that_qemu_itself_serves(tmp_path: Path) -> None:
    """QEMU knows it from the start, and the guest once the device is plugged in."""
    found = path_document()
    device = {key: value for key, value in DEVICE.items() if key != "socket"}
    options = {"mount_tag": "share"}
    keys = {"driver": "virtio-9p-pci", "options": options, "directory": "/mnt"}
    found["stack"].append(device | keys)
    scenario = read_scenario(write(found, tmp_path))
    assert scenario.shares("guest") == {"share": "/mnt"}
    assert scenario.shares("host") == {}
    line = " ".join(qemu.nested_command_line(scenario.machines[0], shares={"share": "/mnt"}))
    assert "-fsdev local,id=share,path=/mnt,security_model=none" in line
    on, log = site(scenario)
    build(scenario.stack[-1:], on)
    assert "'driver': 'virtio-9p-pci', 'bus': 'slot-share', 'mount_tag': 'share', 'fsdev': 'share'" in log[0]  # fmt: skip  # noqa: E501


def test_slots_and_shared_memory_of_a_nested_machine() -> None:
    machine = Machine(name="guest", nested="host", memory_mib=512, shared_memory=True)
    line = " ".join(qemu.nested_command_line(machine, (), ["a", "b"]))
    assert "pcie-root-port,id=slot-a,chassis=1 " in line
    assert "pcie-root-port,id=slot-b,chassis=2 " in line
    assert "-machine q35,memory-backend=memory " in line
    assert "memory-backend-memfd,id=memory,share=on,size=512M" in line
