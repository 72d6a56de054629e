# SPDX-License-Identifier: Apache-2.0
"""Hop vfio: what a disk's controller is, ``vendor:device``, in; a number for it out."""

from __future__ import annotations


def key_of(pci: str) -> int:
    """-1: it is not told."""
    vendor, _, device = pci.partition(":")
    try:
        return int(vendor, 16) << 16 | int(device, 16)
    except ValueError:
        return -1
