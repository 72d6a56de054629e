# SPDX-License-Identifier: Apache-2.0
"""Every program loads and attaches on this kernel, except where there is a good reason."""

from __future__ import annotations

from pathlib import Path

from iostrata.record.diagnosis import diagnose, try_probes

# Each names the kernels that may refuse it, and why.
EXCUSED = {
    "btrfs": "btrfs may be missing from the kernel",
    "xfs": "XFS may be a module, not loaded",
}


def test_every_program_attaches() -> None:
    broken = [probe for probe in try_probes() if probe.result not in ("ok", "unused")]
    loaded = Path("/proc/filesystems").read_text().split()
    left = [probe for probe in broken if not (probe.layer in EXCUSED and probe.layer not in loaded)]
    assert not left


def test_doctor_says_that_writes_can_be_followed() -> None:
    found = diagnose()
    assert found.refusal is None
    assert found.observable
    assert {verdict.sight.layer for verdict in found.verdicts if verdict.seen == "no"} == set()
