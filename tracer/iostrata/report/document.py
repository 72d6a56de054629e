# SPDX-License-Identifier: Apache-2.0
"""Documents for programs: a struct in, JSON out, of the schema that the struct is.

A document's first field, ``schema``, is its struct's tag. What is added later is a new
field; a field that is there neither goes nor changes its meaning within one version.
``docs/schema`` has the JSON Schema of each, made from the structs by ``iostrata.cli.schemas``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from iostrata import model

Ns = Annotated[float, Meta(description="Nanoseconds, to a thousandth.")]
Share = Annotated[float, Meta(description="A part of the whole, which is 1; may be negative.")]
Count = Annotated[int, Meta(ge=0)]

UNATTRIBUTED: Final = "unattributed"


def text(document: Struct) -> str:
    return (
        json.dumps(msgspec.to_builtins(document), indent=2, ensure_ascii=False, allow_nan=False)
        + "\n"
    )


def place(layer: model.Layer | None) -> tuple[str, str | None, str | None]:
    """Layer, machine, segment; None: ``unattributed``, which is on no machine, in no segment."""
    return (layer.name, layer.machine, layer.segment) if layer else (UNATTRIBUTED, None, None)


def picoseconds(ns: float) -> int:
    return round(ns * 1000)


def rounded_ns(ns: float) -> float:
    return picoseconds(ns) / 1000


def rounded_share(share: float) -> float:
    return round(float(share), 6)


def counts(found: Mapping[str, int]) -> dict[str, int]:
    """By name."""
    return {name: int(found[name]) for name in sorted(found)}
