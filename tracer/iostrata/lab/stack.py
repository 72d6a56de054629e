# SPDX-License-Identifier: Apache-2.0
"""Lab stage: the declared stack in, built on the running machines step by step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import takewhile

from iostrata.errors import LabError
from iostrata.lab.steps.step import Site, Step


def build(steps: Sequence[Step], site: Site) -> None:
    """What is built already stays, up to the first step that differs. Errors: LabError."""
    built = [step for step, _ in site.steps.values()]
    same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(built, steps, strict=False))
    )
    for step in reversed(built[same:]):
        _, down = site.steps.pop(step.name)
        down.close()
    for step in steps[same:]:
        with ExitStack() as down:
            _build(step, site, down)
            site.steps[step.name] = step, down.pop_all()


def _build(step: Step, site: Site, down: ExitStack) -> None:
    try:
        step.build(site, down)
    except LabError as error:
        # What is in the way of taking down what was not built is not what to tell.
        with suppress(LabError):
            down.close()
        raise LabError(f"step {step.name}: {error}", error.hint) from error
