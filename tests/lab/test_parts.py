# SPDX-License-Identifier: Apache-2.0
"""The lab's parts without a machine: initramfs, command line, control, processes, state."""

from __future__ import annotations

import base64
import lzma
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from iostrata.errors import LabError
from iostrata.lab import qemu
from iostrata.lab.architecture import ARCHITECTURES
from iostrata.lab.control import Control
from iostrata.lab.decompress import decompressed
from iostrata.lab.initramfs import archive
from iostrata.lab.kernels import SUITES, Kernel, check_series
from iostrata.lab.links import Plug
from iostrata.lab.pace import Pace
from iostrata.lab.port import Port, make_port
from iostrata.lab.process import process
from iostrata.lab.scenario import Fio
from iostrata.lab.tools import ALWAYS, check_tools
from iostrata.lab.topology import Disk, Machine
from iostrata.lab.workload import (
    FAULT_S,
    Witness,
    command,
    preparation,
    prolonged,
    witness,
)
from iostrata.record.status import Progress


class Heard:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def heard(self, progress: Mapping[str, Progress]) -> None:
        pass


@pytest.mark.skipif(not shutil.which("cpio"), reason="cpio is not installed")
def test_archive_is_what_cpio_reads(tmp_path: Path) -> None:
    data = archive(("bin", "empty"), {"bin/one": b"1", "init": b"#!/bin/sh\n", "odd": b"x" * 4097})
    subprocess.run(["cpio", "-i", "--quiet"], input=data, cwd=tmp_path, check=True)
    assert (tmp_path / "bin" / "one").read_bytes() == b"1"
    assert (tmp_path / "odd").read_bytes() == b"x" * 4097
    assert os.access(tmp_path / "init", os.X_OK)
    assert (tmp_path / "empty").is_dir()


def test_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(qemu.ACCELERATOR, "tcg")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    machine = Machine(name="local", cpus=2, memory_mib=512, disks=(Disk(name="data"),))
    kernel = Kernel("6.1", "6.1.0", Path("/cache/vmlinuz"), Path("/cache/lib/modules"))
    plug = Plug("lan", "192.0.2.1/24", "52:54:00:00:00:01", 7)
    ports = {"control": "control", "guest.control": "exchange/guest/control"}
    handed_on = {"nested-root": Path("/cache/root.img")}
    line = " ".join(qemu.command_line(machine, kernel, [plug], ports, handed_on))
    assert "-smp 2 -m 512" in line
    assert "idle=poll" not in line
    assert "-accel tcg,thread=multi" in line
    assert "path=/cache/lib/modules,security_model=none,readonly=on" in line
    assert "file=data.img,format=raw,cache=none" in line
    assert "serial=data" in line
    assert "file=/cache/root.img,format=raw,readonly=on" in line
    assert "addr.type=fd,addr.str=7 -device virtio-net-pci,netdev=lan,mac=52:54:00:00:00:01" in line
    assert "id=guest.control,path=exchange/guest/control" in line
    assert "virtserialport,chardev=guest.control,name=guest.control" in line


def test_command_line_of_another_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is emulated, whatever this machine can do for its own."""
    monkeypatch.setenv(qemu.ACCELERATOR, "kvm")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    machine = Machine(name="local", architecture="arm64", poll=True)
    kernel = Kernel("6.1", "6.1.0-arm64", Path("/cache/vmlinuz"), Path("/cache/lib/modules"))
    words = qemu.command_line(machine, kernel, [], {}, {}, None, Path("/cache/root"))
    line = " ".join(words)
    assert words[0] == "qemu-system-aarch64"
    assert "-machine virt,gic-version=max -accel tcg,thread=multi -cpu neoverse-n1 " in line
    assert "-append console=ttyAMA0 quiet panic=-1 mitigations=off nohlt " in line
    assert "mount_tag=root,path=/cache/root,security_model=none,readonly=on" in line
    assert qemu.racing(Machine(name="local", architecture="arm64", cpus=2))
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert "-accel kvm -cpu host " in " ".join(qemu.command_line(machine, kernel, [], {}, {}))


def test_a_cpu_that_is_never_halted() -> None:
    line = " ".join(qemu.nested_command_line(Machine(name="guest", nested="host", poll=True)))
    assert f"-append {ARCHITECTURES['amd64'].boot} idle=poll " in line


@pytest.mark.parametrize(
    ("accelerator", "cpus", "nested", "racing"),
    [
        ("tcg", 2, None, True),
        ("tcg", 1, None, False),
        ("tcg", 2, "h", False),
        ("kvm", 2, None, False),
    ],
)
def test_emulated_cpus_that_may_hang(
    accelerator: str, cpus: int, nested: str | None, racing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(qemu.ACCELERATOR, accelerator)
    assert qemu.racing(Machine(name="g", nested=nested, cpus=cpus)) == racing


@pytest.mark.parametrize(("below", "cpu"), [("kvm", "host"), ("tcg", "host,-xsave,-avx")])
def test_command_line_of_a_nested_machine(
    below: str, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(qemu.ACCELERATOR, below)
    line = " ".join(qemu.nested_command_line(Machine(name="guest", nested="host")))
    assert f"-accel kvm -cpu {cpu} " in line
    assert "chardev pipe,id=control,path=/run/ports/guest.control" in line
    assert "serial=root" in line
    assert "-kernel /run/guest.elf" in line
    assert "chardev=monitor,mode=control" in line


def test_an_accelerator_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(qemu.ACCELERATOR, "steam")
    with pytest.raises(LabError, match="no such accelerator") as error:
        qemu.accelerator()
    assert "kvm, tcg" in error.value.hint


def test_a_kernel_that_does_not_exist() -> None:
    with pytest.raises(LabError, match="no kernel 2") as error:
        check_series("2")
    assert all(series in error.value.hint for series in SUITES)


def test_a_kernel_compressed_by_xz_is_decompressed_once(tmp_path: Path) -> None:
    image = tmp_path / "vmlinuz"
    image.write_bytes(b"MZ" + lzma.compress(b"\x7fELF and more") + b"end")
    kernel = decompressed(image)
    assert kernel.read_bytes() == b"\x7fELF and more"
    image.write_bytes(b"")
    assert decompressed(image) == kernel


@pytest.mark.parametrize(
    "data", [b"MZ", b"MZ\xfd7zXZ\0 but broken", b"MZ" + lzma.compress(b"no kernel")]
)
def test_other_kernels_are_taken_as_they_are(data: bytes, tmp_path: Path) -> None:
    image = tmp_path / "vmlinuz"
    image.write_bytes(data)
    assert decompressed(image) == image


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iostrata.lab.tools.PATH", "/nonexistent")
    with pytest.raises(LabError, match="busybox") as error:
        check_tools(["qemu-system-aarch64", *ALWAYS])
    assert error.value.hint == "sudo apt-get install qemu-system-arm busybox-static kmod"


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[Control, Path]]:
    """A control whose machine is alive, and the port whose other end is the machine's."""
    path = tmp_path / "control"
    make_port(path)
    control = Control(Port(path, lambda: True))
    yield control, path
    control.close()


def answer(path: Path, *replies: str) -> None:
    """Answers one request; ``ID`` in a reply stands for its number."""
    with Path(f"{path}.in").open() as requests:
        word = requests.readline().split()[0]
    with Path(f"{path}.out").open("w") as answers:
        answers.writelines(f"{reply.replace('ID', word)}\n" for reply in replies)


def test_a_command_and_its_reply(ends: tuple[Control, Path]) -> None:
    control, path = ends
    output = base64.b64encode("naïve\n".encode()).decode()
    # The first is the late reply to a command that was given up, the second a part of one.
    machine = threading.Thread(target=answer, args=(path, "0.0 0 ", "bmE=", f"ID 3 {output}"))
    machine.start()
    done = control.run("echo", 5)
    machine.join()
    assert (done.status, done.output) == (3, "naïve\n")


def test_a_command_without_output(ends: tuple[Control, Path]) -> None:
    control, path = ends
    machine = threading.Thread(target=answer, args=(path, "ID 0 "))
    machine.start()
    assert control.run("true", 5).output == ""
    machine.join()


def test_a_command_longer_than_the_port_holds(ends: tuple[Control, Path]) -> None:
    control, path = ends
    machine = threading.Thread(target=answer, args=(path, "ID 0 "))
    machine.start()
    assert control.run("true " + "x" * (1 << 20), 5).status == 0
    machine.join()


def test_a_machine_that_is_gone(tmp_path: Path) -> None:
    make_port(tmp_path / "control")
    control = Control(Port(tmp_path / "control", lambda: False))
    with pytest.raises(LabError, match="it is gone"):
        control.run("true", 5)
    control.close()


def test_a_machine_without_a_port(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="it has no port control: No such file"):
        Port(tmp_path / "control", lambda: True)


SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


def test_only_the_very_process_is_ended() -> None:
    with subprocess.Popen(SLEEP) as sleeper:
        known = process(sleeper.pid)
        assert known.alive
        other = type(known)(known.pid, known.began - 1)  # the number's earlier owner
        assert not other.alive
        other.end()
        assert known.alive
        known.end()
        assert not known.alive


def test_fio_makes_its_files_before_it_is_recorded() -> None:
    workload = Fio(name="w", machine="local", directory="/mnt", options={"rw": "write", "sync": 1})
    words = command(workload, "/run/account")
    # A write to a connection that ends must not end fio.
    assert words[:2] == ("env", "--ignore-signal=PIPE")
    assert words[2:5] == ("fio", "--name=w", "--directory=/mnt")
    assert {"--rw=write", "--sync=1"} < {*words}
    assert preparation(workload, "/run/account") == (*words, "--create_only=1")


FIO = b"""fio: a warning
{"jobs": [{"write": {"total_ios": 7, "clat_ns": {"mean": 50.0, "N": 7}}, "sync": %s}]}"""


def test_fio_of_its_own_writes() -> None:
    assert witness(FIO % b"{}") == Witness(7, 50.0)
    assert witness(FIO % b"{}" + b"\nfio: it took long\n") == Witness(7, 50.0)
    assert witness(FIO % b'{"lat_ns": {"N": 6, "mean": 100.0}}') == Witness(6, 150.0)
    for wrong in (b"fio: failed", b'{"jobs": 3}', b'{"jobs": []}'):
        with pytest.raises(LabError, match="account cannot be read"):
            witness(wrong)


def test_fio_of_all_that_it_transfers() -> None:
    """From its submission on, which is before its completion's latency."""
    kind = b'{"total_ios": %d, "lat_ns": {"N": %d, "mean": %d}, "slat_ns": {"N": %d, "mean": %d}}'
    read, write = (
        kind % (n, n, mean, n, before) for n, mean, before in ((30, 100, 4), (10, 500, 8))
    )
    told = b'{"jobs": [{"read": %s, "write": %s}]}' % (read, write)
    assert witness(told, "direct") == Witness(40, 200.0, 5.0)
    assert witness(told, "direct", 0.05) == Witness(40, 200.0, 15.0)


@pytest.mark.parametrize(
    ("options", "factor", "runtime"),
    [
        ({"runtime": 5}, 1.0, 5 + FAULT_S),
        ({"runtime": 5}, 2.5, round(2.5 * (5 + FAULT_S))),
        ({"size": 1024}, 2.5, None),
    ],
)
def test_a_fault_has_its_time_in_the_midst_of_a_workload(
    options: dict[str, str | int], factor: float, runtime: int | None
) -> None:
    """A clock that was set for 1 s, 2 s after the begin of 5: no write came behind it."""
    workload = Fio(name="w", machine="local", directory="/mnt", options={"rw": "write", **options})
    assert prolonged(workload, Pace(factor)).options.get("runtime") == runtime
