# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: runs of two sides in, the same out, one machine's rows as those of another.

What a program takes on a machine of its own is held against what it takes in a virtual one, or
with its target recorded, too: its machine's own rows are beside those of the one that writes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iostrata.attribute.run import Run
from iostrata.model import Beside, Layer


def aligned(a: Sequence[Run], b: Sequence[Run]) -> tuple[list[Run], list[Run], Beside | None]:
    """None: both sides have one machine, or both several."""
    if (top := _top(b)) and _alone(a):
        return [_renamed(run, top) for run in a], [*b], Beside("a", top.machine)
    if (top := _top(a)) and _alone(b):
        return [*a], [_renamed(run, top) for run in b], Beside("b", top.machine)
    return [*a], [*b], None


def _alone(runs: Sequence[Run]) -> bool:
    return all(run.layers and not any(map(_named, run.layers)) for run in runs)


def _top(runs: Sequence[Run]) -> Layer | None:
    """The first row of the machine that writes in all of some runs of several."""
    first = [run.layers[0] for run in runs if run.layers]
    same = len({(layer.machine, layer.segment) for layer in first}) == 1
    return first[0] if len(first) == len(runs) and same and all(map(_named, first)) else None


def _named(layer: Layer) -> bool:
    """Whether it says which of several machines it is of."""
    return layer.name != layer.row


def _renamed(run: Run, top: Layer) -> Run:
    """What is of its machine itself; its device may be anybody's."""
    own = run.layers[0].segment
    new = {
        (layer.machine, layer.name): replace(
            layer, name=f"{top.machine}/{layer.name}", machine=top.machine, segment=top.segment
        )
        if layer.segment == own
        else layer
        for layer in run.layers
    }
    keys = {key: (layer.machine, layer.name) for key, layer in new.items()}
    groups = {
        name: replace(group, layers={keys[key]: figure for key, figure in group.layers.items()})
        for name, group in run.groups.items()
    }
    gaps = tuple(
        replace(gap, machines=gap.machines or (top.machine,)) for gap in run.quality.not_observed
    )
    own_rows = {(layer.machine, layer.row) for layer in run.layers if layer.segment == own}
    crossed = tuple(
        (top.machine if (machine, row) in own_rows else machine, row)
        for machine, row in run.quality.crossed
    )
    quality = replace(run.quality, not_observed=gaps, crossed=crossed)
    return replace(run, layers=tuple(new.values()), groups=groups, quality=quality)
