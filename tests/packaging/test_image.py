# SPDX-License-Identifier: Apache-2.0
"""The image, and the DaemonSet's pod as a container of podman: there is no Kubernetes here."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from iostrata.errors import STATUS_LOSSES
from iostrata.record import refusal
from tests.packaging.dist import DIST, ROOT, readme
from tests.roots import fresh_root, run

pytestmark = pytest.mark.dist
# It has cgroups of both versions, and limits that not everybody may set, where this was written.
CONTAINERS: Final = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
"""
BASE: Final = "localhost/debian:13-slim"


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """With images and containers of its own, of which nothing is left."""
    if os.geteuid() or not shutil.which("podman"):
        pytest.skip("needs root and podman")
    place = tmp_path_factory.mktemp("podman")
    (place / "containers.conf").write_text(CONTAINERS)
    settings = f"CONTAINERS_CONF={place}/containers.conf"
    ours = ("env", settings, "podman", "--root", f"{place}/root", "--runroot", f"{place}/run")
    yield ours
    run(*ours, "rm", "--all", "--force", "--time", "0", "--volumes")
    run(*ours, "rmi", "--all", "--force")
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def image(podman: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> str:
    """As README says, on a base made here instead of a registry's."""
    root = fresh_root("trixie", "apt", tmp_path_factory.mktemp("base"))
    run("tar", "--directory", root, "--create", "--file", f"{root}.tar", ".")
    run(*podman, "import", f"{root}.tar", BASE)
    program, *words = shlex.split(readme("podman"))
    assert program == "podman"
    own = ["--from", BASE, "--network", "host", "--isolation", "chroot"]
    command = [*podman, words[0], *own, *words[1:]]
    subprocess.run(command, cwd=ROOT, check=True, timeout=1800)
    return words[words.index("-t") + 1]


def pod_of(image: str) -> list[str]:
    """What `podman run` is to be given for the pod that the DaemonSet starts on each node.

    Podman 4.3 (Debian 12) plays no DaemonSets, and its pods have no hostPID.
    """
    daemonset = yaml.safe_load((ROOT / "packaging/daemonset.yaml").read_text())
    pod: dict[str, Any] = daemonset["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    context = container["securityContext"]
    assert container["image"] == image
    assert (pod["hostPID"], pod["hostNetwork"], context["readOnlyRootFilesystem"]) == (True,) * 3
    words = ["--pid", "host", "--network", "host", "--read-only", "--entrypoint", ""]
    words += [f"--cap-drop={name}" for name in context["capabilities"]["drop"]]
    words += [f"--cap-add={name}" for name in context["capabilities"]["add"]]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in container["volumeMounts"]:
        inside = mount["mountPath"]
        if of_node := volumes[mount["name"]].get("hostPath"):
            inside = f"{of_node['path']}:{inside}:ro"
            inside += ",rslave" if mount.get("mountPropagation") == "HostToContainer" else ""
        words += ["--volume", inside]
    return [*words, f"localhost/{image}", *container["command"]]


def test_the_image_runs(podman: tuple[str, ...], image: str) -> None:
    said = run(*podman, "run", "--rm", "--network", "none", image, "--version")
    assert said.split()[-1] in "".join(path.name for path in DIST.glob("*.whl"))


def test_a_pod_records_its_node(podman: tuple[str, ...], image: str, tmp_path: Path) -> None:
    """A process outside, by the number that it has outside, on a file system that is outside."""
    if refused := refusal():
        pytest.skip(refused.why)
    run(*podman, "run", "--detach", "--name", "pod", *pod_of(image))
    write = "dd if=/dev/zero of=written bs=4k count=10 oflag=dsync status=none"
    loop = ["sh", "-c", f"while sleep 0.05; do {write}; done"]
    writer = subprocess.Popen(loop, cwd=tmp_path)
    try:
        command = ["exec", "pod", "iostrata", "run", "--pid", str(writer.pid)]
        done = subprocess.run(
            [*podman, *command, "--duration", "2"],
            check=False, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    finally:
        writer.kill()
        writer.wait()
    assert done.returncode in (0, STATUS_LOSSES), done.stderr
    system = run("findmnt", "--noheadings", "--output", "FSTYPE", "--target", tmp_path).strip()
    assert "synchronous writes by dd" in done.stdout
    assert f"on {system}" in done.stdout.splitlines()[0]
