# SPDX-License-Identifier: Apache-2.0
"""What is declared for others' programs: the DaemonSet, the workflow, versions."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from iostrata import __version__

ROOT: Final = Path(__file__).parents[2]
PACKAGING: Final = ROOT / "packaging"
PRIVILEGES: Final = ROOT / "bpf/record/privileges.c"


def pod() -> dict[str, Any]:
    spec = yaml.safe_load((PACKAGING / "daemonset.yaml").read_text())["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def test_a_pod_may_what_the_recorder_needs_and_no_more() -> None:
    (container,) = pod()["containers"]
    context = container["securityContext"]
    code = re.sub(r"/\*.*?\*/", "", PRIVILEGES.read_text(), flags=re.DOTALL)
    named = set(re.findall(r"\bCAP_([A-Z_]+)", code))
    assert {"BPF", "PERFMON", "SYS_ADMIN"} < named
    # A real-time priority (be_prompt in bpf/record/main.c) is asked for by a call.
    assert set(context["capabilities"]["add"]) == named | {"SYS_NICE"}
    assert context["capabilities"]["drop"] == ["ALL"]
    assert not {"privileged", "runAsUser"} & set(context)


def test_a_pod_changes_nothing_of_its_node() -> None:
    (container,) = pod()["containers"]
    of_node = {volume["name"] for volume in pod()["volumes"] if "hostPath" in volume}
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert of_node < set(mounts)
    assert all(mounts[name].get("readOnly") for name in of_node)
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_an_image_is_named_by_its_version() -> None:
    (container,) = pod()["containers"]
    assert container["image"] == f"iostrata:{__version__}"


def tagged(tag: str) -> int:
    command = ["make", "--directory", str(PACKAGING), "tagged", f"TAG={tag}"]
    return subprocess.run(command, capture_output=True, check=False).returncode


def test_a_tag_is_of_the_version_that_the_changelog_tells_of() -> None:
    told = re.search(rf"^## {re.escape(__version__)}, ", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert (tagged(f"v{__version__}") == 0) == bool(told)
    assert tagged("v9.9.9")
    assert tagged(__version__)


def test_the_changelog_begins_with_what_is_not_released() -> None:
    headings = re.findall(r"^## (.*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [re.fullmatch(r"\d+\.\d+\.\d+, (\d{4}-\d\d-\d\d)", text) for text in headings]
    dates = [match[1] for match in released if match]
    assert headings[0] == "Unreleased" or released[0]
    assert dates == sorted(dates, reverse=True)


@pytest.mark.parametrize("job", ["build", "publish"])
def test_a_release_needs_no_secret(job: str) -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    workflow = yaml.safe_load(text)
    # YAML 1.1 takes `on` for a truth.
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    assert workflow["permissions"] == {}
    assert workflow["jobs"][job]["permissions"]["id-token"] == "write"
    assert "secrets." not in text
