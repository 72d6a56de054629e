# SPDX-License-Identifier: Apache-2.0
"""Paths: a trace's parts of paths in, which file had which path since when out.

A part that is missing makes a name incomplete: then it is not known, and not made up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from iostrata.columns import AsOf, Ints, pair_key
from iostrata.foreign import kept, shown
from iostrata.trace.facts import Facts
from iostrata.trace.points import Points

FIELDS = ("tid", "inode", "dev", "root_dev", "part", "component", "last")


@dataclass(frozen=True, eq=False)
class FileNames:
    """``paths``: of the files, by row of the columns; true from ``time_ns`` on."""

    device_key: Ints
    inode: Ints
    time_ns: Ints
    paths: tuple[str, ...]

    @cached_property
    def _as_of(self) -> AsOf:
        return AsOf(pair_key(self.inode, self.device_key), self.time_ns)

    def rows(self, device_key: Ints, inode: Ints, time_ns: Ints) -> Ints:
        """The last name that each of the files had been told of by then, -1: none."""
        return self._as_of.at_or_before(pair_key(inode, device_key), time_ns)


@dataclass
class _Path:
    """What has been told of a path so far, its last component first."""

    inode: int
    dev: int
    time_ns: int
    components: list[bytes]
    parts: int = 0


def file_names(points: Points, facts: Facts) -> FileNames:
    """Every path that was told to its end. ``points``: of ``file_name``."""
    found = list(_paths(points, facts)) if len(points) else []
    return FileNames(
        np.array([path.dev for path, _ in found], np.int64),
        np.array([path.inode for path, _ in found], np.int64),
        np.array([path.time_ns for path, _ in found], np.int64),
        tuple(text for _, text in found),
    )


def _paths(points: Points, facts: Facts) -> Iterator[tuple[_Path, str]]:
    """Each thread tells one path after the other."""
    numbers = points.integers(*FIELDS)
    rows = zip(*(numbers[name].tolist() for name in ("time_ns", *FIELDS)), strict=True)
    begun: dict[int, _Path] = {}
    for (time_ns, tid, inode, dev, root_dev, part, component, last), text in zip(
        rows, points["text"].tolist(), strict=True
    ):
        path = begun.pop(tid, None)
        if part == 0:
            path = _Path(inode, dev, time_ns, [])
        if path is None or (path.inode, path.dev, path.parts) != (inode, dev, part):
            continue
        path.parts += 1
        if last:
            whole = b"/" + b"/".join(reversed(path.components))
            yield path, shown(facts.path_of(root_dev, kept(whole)))
            continue
        if component == len(path.components):
            path.components.append(b"")
        if component == len(path.components) - 1:
            path.components[component] += text
            begun[tid] = path
