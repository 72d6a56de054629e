# SPDX-License-Identifier: Apache-2.0
"""A stream's bytes in, frames that hold them out, and the same with something wrong in them."""

from __future__ import annotations

import struct
from random import Random
from typing import Final

from iostrata.trace.frames import MAGIC, MOST_BYTES, frame_of
from iostrata.trace.layout import EVENT_BYTES
from tests.trace.framed import zstd

MOST_SLOTS: Final = 200
SIZES: Final = (0, 1, 63, 64, 128, 1 << 17, MOST_BYTES, MOST_BYTES + 1, 1 << 26)


def framed(data: bytes, random: Random) -> list[bytes]:
    """All of it, whatever the packets are; with what is to be skipped in between."""
    found, at = [], 0
    while at < len(data):
        end = at + random.randint(0, MOST_SLOTS) * EVENT_BYTES
        found.append(frame_of(data[at:end]))
        if random.random() < 0.1:
            found.append(_skippable(random))
        at = end
    return found


def broken(frames: list[bytes], random: Random) -> bytes:
    """One to three things changed, of the frames or within one."""
    made = list(frames)
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(made) + 1)
        match random.randrange(7):
            case 0:
                made[at : at + 1] = []
            case 1:
                made[at:at] = [_bomb(random)]
            case 2:
                made[at:at] = [
                    random.choice((MAGIC, _skippable(random)[:-1], random.randbytes(99)))
                ]
            case 3:
                made[at:at] = random.sample(made, min(len(made), 3))
            case 4 if made:
                one = random.randrange(len(made))
                made[one] = made[one][: random.randint(0, len(made[one]))]
            case _ if made:
                one = random.randrange(len(made))
                made[one] = _flipped(made[one], random)
    return b"".join(made)


def _skippable(random: Random) -> bytes:
    content = random.randbytes(random.randint(0, 200))
    return struct.pack("<II", 0x184D2A50 + random.randrange(16), len(content)) + content


def _bomb(random: Random) -> bytes:
    content = bytes(random.choice(SIZES))
    if random.random() < 0.5:
        return frame_of(content)
    made = zstd().ZstdCompressor()
    return bytes(made.compress(content) + made.flush())


def _flipped(frame: bytes, random: Random) -> bytes:
    """Mostly of its head, where its sizes are."""
    changed = bytearray(frame)
    for _ in range(random.randint(1, 4) if frame else 0):
        most = random.choice((18, len(frame)))
        changed[random.randrange(min(most, len(frame)))] ^= 1 << random.randrange(8)
    return bytes(changed)
