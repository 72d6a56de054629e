# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of all documents: ``python -m iostrata.cli.schemas DIR`` writes a file each."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from iostrata.bench import Bench
from iostrata.cli.doctor_json import Doctor
from iostrata.cli.import_json import Import
from iostrata.cli.lab_json import Lab
from iostrata.report import Breakdown, Comparison, Estimate, Timelines

DOCUMENTS: Final[tuple[type[Struct], ...]] = (
    Breakdown,
    Timelines,
    Comparison,
    Estimate,
    Bench,
    Doctor,
    Lab,
    Import,
)
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def files() -> Mapping[str, str]:
    """The text of each schema, by the name of its file: ``breakdown-1.json``."""
    return {_file_name(kind): _text(schema_of(kind)) for kind in DOCUMENTS}


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    return {"$schema": DIALECT, **_told(msgspec.json.schema(kind))}


def _told(schema: Any) -> Any:
    """With each description, which is a docstring, as one line: Pythons indent them differently."""
    if isinstance(schema, dict):
        return {
            key: " ".join(value.replace("``", "`").split())
            if key == "description" and isinstance(value, str)
            else _told(value)
            for key, value in schema.items()
        }
    return [_told(value) for value in schema] if isinstance(schema, list) else schema


def _file_name(kind: type[Struct]) -> str:
    name, _, version = str(kind.__struct_config__.tag).removeprefix("iostrata.").partition("/")
    return f"{name}-{version}.json"


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main(directory: Path) -> None:
    for name, text in files().items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
