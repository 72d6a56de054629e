# SPDX-License-Identifier: Apache-2.0
"""Report stage: an Estimate as JSON, schema ``iostrata.estimate/1``."""

from __future__ import annotations

from msgspec import Struct

from iostrata import model
from iostrata.report.document import Count, Ns, Share, rounded_ns, rounded_share, text


class Guess(Struct, frozen=True):
    """One term of the arithmetic, in ns a write. What is ``merged_into`` a segment is part of it.

    ``basis``: where the guess comes from, or why there is none; ``of`` and ``samples``: what it
    was read from. ``error_share``: of what was measured.
    """

    segments: list[str]
    guess_ns: Ns | None
    basis: model.Basis
    of: str
    samples: Count
    measured_ns: Ns | None
    merged_into: str | None
    error_ns: Ns | None
    error_share: Share | None


class Estimate(Struct, frozen=True, tag_field="schema", tag="iostrata.estimate/1"):
    """The arithmetic that needs no tracing beside what was measured; ``total_ns``: a write."""

    machine: str
    writes: Count
    total_ns: Ns
    guesses: list[Guess]


def render(estimate: model.Estimate) -> str:
    return text(document(estimate))


def document(estimate: model.Estimate) -> Estimate:
    return Estimate(
        machine=estimate.machine,
        writes=estimate.writes,
        total_ns=rounded_ns(estimate.total_ns),
        guesses=[_guess(guess) for guess in estimate.guesses],
    )


def _guess(guess: model.Guess) -> Guess:
    share = guess.error_share
    return Guess(
        segments=list(guess.segments),
        guess_ns=_ns(guess.guess_ns),
        basis=guess.basis,
        of=guess.of,
        samples=guess.samples,
        measured_ns=_ns(guess.measured_ns),
        merged_into=guess.merged_into or None,
        error_ns=_ns(guess.error_ns),
        error_share=None if share is None else rounded_share(share),
    )


def _ns(value: float | None) -> float | None:
    return None if value is None else rounded_ns(value)
