# SPDX-License-Identifier: Apache-2.0
"""Fresh Debian systems, each in a root made by debootstrap; the kernel is this machine's."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest

CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


def run(*command: str | Path, timeout_s: int = 300) -> str:
    """What it says; it runs to its end, or the test fails with the last of it."""
    done = subprocess.run(
        [str(word) for word in command],
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", timeout=timeout_s,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def mirror() -> str:
    """Where this machine has its packages from: of several places that with the most."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    return statistics.mode(run(*words).split())


def fresh_root(suite: str, packages: str, root: Path) -> Path:
    """The smallest Debian, and these packages."""
    if os.geteuid() or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap")
    include = f"--include={packages},ca-certificates"
    run("unshare", "--mount", "debootstrap", "--variant=minbase", include, suite, root, mirror(),
        timeout_s=1800)  # fmt: skip
    # As every system's: all its users may enter it.
    root.chmod(0o755)
    # What this machine trusts, as between it and the world there may be a proxy.
    for name in (CERTIFICATES, "etc/resolv.conf"):
        if Path("/", name).exists():
            shutil.copyfile(Path("/", name), root / name)
    return root


# The kernel's file systems are there for the command alone: whatever becomes of it, who removes
# the root does not meet this machine's /dev. A root is a mount, by which files' paths are told.
MOUNTED = (
    'mount --bind "$0" "$0"; for name in proc sys dev; do mount --rbind "/$name" "$0/$name"; done; '
    'exec chroot "$0" "$@"'
)


def inside(root: Path, *command: str) -> tuple[str, ...]:
    """The words that run a command in that root."""
    return ("unshare", "--mount", "sh", "-ec", MOUNTED, str(root), *command)
