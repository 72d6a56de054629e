# SPDX-License-Identifier: Apache-2.0
"""Lab stage: what the keys of a scenario may hold."""

from __future__ import annotations

from typing import Annotated

import msgspec

NAME = r"[a-z][a-z0-9_-]{0,15}"
PLACE = r"/[\w./-]+"

Name = Annotated[str, msgspec.Meta(pattern=f"^{NAME}$")]
Count = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[int, msgspec.Meta(ge=0)]
Place = Annotated[str, msgspec.Meta(pattern=f"^{PLACE}$")]
# A disk, or a directory in which something is mounted.
NameOrPlace = Annotated[str, msgspec.Meta(pattern=f"^({NAME}|{PLACE})$")]
Address = Annotated[str, msgspec.Meta(pattern=r"^\d+(\.\d+){3}/\d+$")]
Package = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9.+-]+$")]
# A word of a kernel's command line.
Parameter = Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+(=\S+)?$")]
# A kernel's module, and the parameters that it is loaded with.
Module = Annotated[str, msgspec.Meta(pattern=r"^\w[\w-]*( \w+=\S*)*$")]


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a scenario: no key goes unread."""
