# SPDX-License-Identifier: Apache-2.0
"""Every program loads and attaches on this kernel, except where there is a good reason."""

from __future__ import annotations

from pathlib import Path

from iostrata.layers import VISIBILITY
from iostrata.record.diagnosis import MISSING, Probe, diagnose, try_probes

# Each names the kernels that may refuse it, and why.
EXCUSED = {
    "btrfs": "btrfs may be missing from the kernel",
    "xfs": "XFS may be a module, not loaded",
}
# Lockdown forbids programs on functions; a layer that has no others is not seen.
FORBIDDEN = ("EPERM", "this kernel lets no program look at its functions")
ON_FUNCTIONS = {"faults", "virtio"}


def forbidden(probe: Probe) -> bool:
    return (probe.result, probe.text) == FORBIDDEN


def absent(probe: Probe) -> bool:
    of_layer = [visibility for visibility in VISIBILITY if probe.layer in visibility.prefixes]
    return probe.result in MISSING and any(visibility.absent for visibility in of_layer)


def test_every_program_attaches() -> None:
    broken = [
        probe
        for probe in try_probes()
        if probe.result not in ("ok", "unused") and not forbidden(probe) and not absent(probe)
    ]
    loaded = Path("/proc/filesystems").read_text().split()
    left = [probe for probe in broken if not (probe.layer in EXCUSED and probe.layer not in loaded)]
    assert not left


def test_doctor_says_that_writes_can_be_followed() -> None:
    found = diagnose()
    assert found.refusal is None
    assert found.observable
    unseen = {verdict.visibility.name for verdict in found.verdicts if verdict.seen == "no"}
    assert unseen <= ON_FUNCTIONS
