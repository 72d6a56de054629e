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
        "faults": [
            {"name": "clock", "workload": "fdatasync", "machine": "local", "command": "date"},
        ],
        "checks": {"residual": 0.02},
    }


def path_document() -> dict[str, Any]:
    """A guest in a host that has its image on a server."""
    return {
        "description": "three machines",
        "machines": [
            {"name": "guest", "nested": "host"},
            {"name": "host"},
            {"name": "server", "disks": [{"name": "disk"}]},
        ],
        "links": [
            {"name": "lan", "addresses": {"host": "192.0.2.2/24", "server": "192.0.2.1/24"}},
        ],
        "stack": [
            {
                "kind": "file_system",
                "name": "export",
                "machine": "server",
                "device": "disk",
                "directory": "/srv",
            },
            {"kind": "nfs_server", "name": "nfsd", "machine": "server", "directory": "/srv"},
            {
                "kind": "nfs_mount",
                "name": "mount",
                "machine": "host",
                "server": "nfsd",
                "directory": "/mnt",
            },
            {
                "kind": "image",
                "name": "image",
                "machine": "host",
                "directory": "/mnt",
                "guest": "guest",
            },
            {
                "kind": "file_system",
                "name": "ext4",
                "machine": "guest",
                "device": "image",
                "directory": "/data",
            },
            {"kind": "netem", "name": "reply", "machine": "server", "link": "lan"},
            {"kind": "cpu_quota", "name": "quota", "machine": "host", "guest": "guest"},
        ],
        "workloads": [
            {"kind": "methods", "machine": "guest", "directory": "/data", "jobs": [1, 4]},
        ],
        "injections": [
            {
                "name": "delay",
                "workload": "fdatasync",
                "step": "reply",
                "replace": {"delay_ns": 5_000_000},
                "rows": ["server/device.*"],
            }
        ],
        "variants": [
            {"name": "native", "description": "", "replace": {"image": {"aio": "native"}}},
        ],
    }


def write(found: dict[str, Any], directory: Path) -> Path:
    file = directory / "test.toml"
    file.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in found.items()))
    return file


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = {_toml(each)}' for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return json.dumps(value)
