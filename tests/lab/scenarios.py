# SPDX-License-Identifier: Apache-2.0
"""A small scenario as a document, to be spoilt key by key, and written as TOML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def document() -> dict[str, Any]:
    return {
        "description": "one machine",
        "machines": [{"name": "local", "disks": [{"name": "data"}]}],
        "stack": [
            {"kind": "null_blk", "name": "slow", "machine": "local", "completion_ns": 10_000},
            {
                "kind": "file_system",
                "name": "ext4",
                "machine": "local",
                "device": "slow",
                "directory": "/mnt/data",
            },
        ],
        "workloads": [
            {
                "kind": "fio",
                "name": "fdatasync",
                "machine": "local",
                "directory": "/mnt/data",
                "options": {"rw": "write", "fdatasync": 1},
            }
        ],
        "injections": [
            {
                "name": "delay",
                "workload": "fdatasync",
                "step": "slow",
                "replace": {"completion_ns": 3_010_000},
                "delay_ns": 3_000_000,
                "rows": ["device.data"],
            }
        ],
        "checks": {"residual": 0.02},
    }


def write(found: dict[str, Any], directory: Path) -> Path:
    file = directory / "test.toml"
    file.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in found.items()))
    return file


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return json.dumps(value)
