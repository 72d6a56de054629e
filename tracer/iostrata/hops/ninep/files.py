# SPDX-License-Identifier: Apache-2.0
"""Hop ninep: a file's number and its file system in, one number of both out."""

from __future__ import annotations

from typing import Final

from iostrata.columns import Ints

NUMBER_BITS: Final = 40
"""Above are subvolumes of a btrfs, which QEMU does not tell (SUBVOLUME_SHIFT of bpf/events.h)."""
DEVICE_BITS: Final = 23
"""What is left of a number, and tells a machine's file systems apart."""
SPREAD: Final = 0x9E37_79B1


def file_of(number: Ints, device_key: Ints) -> Ints:
    device = (device_key * SPREAD >> 8) & (1 << DEVICE_BITS) - 1
    return device << NUMBER_BITS | number & (1 << NUMBER_BITS) - 1


def number_of(file: Ints) -> Ints:
    """What both machines know of it."""
    return file & (1 << NUMBER_BITS) - 1
