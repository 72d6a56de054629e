# SPDX-License-Identifier: Apache-2.0
"""The clock stage's verb: two machines' traces, and what ties them, to an Alignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np

from iostrata import units
from iostrata.clock.alignment import Alignment
from iostrata.clock.causality import Causality, bound_by_causality
from iostrata.clock.exchange import offers_of_exchange
from iostrata.clock.intervals import Intervals
from iostrata.clock.line import Line
from iostrata.clock.offer import Offer
from iostrata.clock.settle import no_less
from iostrata.clock.tsc import offers_of_tsc
from iostrata.trace import Trace

CAUSALITY: Final = "causality"
ELSEWHERE_NS: Final = 1_000_000_000
"""What is further off is the clock of another machine, that was booted at another time."""
SOURCES: Final[Mapping[str, Callable[[Trace, Trace], list[Offer]]]] = MappingProxyType(
    {"tsc": offers_of_tsc, "exchange": offers_of_exchange}
)
"""What can tell how two clocks relate besides causality, the most accurate first.

A source may have several offers (a host's virtual machines), of which one is right.
"""


def align(upper: Trace, lower: Trace, asks: Intervals, serves: Intervals) -> Alignment | None:
    """How the lower machine's clock relates to the upper's; None if nothing ties them.

    ``asks``: what the upper machine asked for, in its clock; ``serves``: what the
    lower one did for others, in its own. Of one key, a serve that answers an ask
    lies within it; causality is what follows from that. The most accurate source
    that causality allows is taken; what it does not allow is a contradiction.
    """
    offers = {name: source(upper, lower) for name, source in SOURCES.items()}
    lines = [offer.line for found in offers.values() for offer in found]
    causality = bound_by_causality(asks, serves, lines)
    if causality is None:
        return unchecked(offers)
    agreeing = agreeing_with(causality, offers)
    if not agreeing and (sure := [o.line for found in offers.values() for o in found if o.sure]):
        # Of keys that many machines' requests have, most are served by chance, too.
        told = bound_by_causality(asks, serves, sure, voting=False)
        if told and no_less(told.served, causality.served):
            causality, agreeing = told, agreeing_with(told, offers)
    chosen = agreeing[0] if agreeing else by_causality(causality)
    agreed = {alignment.source for alignment in agreeing}
    wrong = (
        disagreement(name, found, causality) for name, found in offers.items() if name not in agreed
    )
    doubt = causality.ambiguity if chosen.rivals or not agreeing else None
    defects = "; ".join(filter(None, (causality.contradiction, doubt, *wrong)))
    return replace(chosen, contradiction=defects or None)


def agreeing_with(causality: Causality, offers: Mapping[str, list[Offer]]) -> list[Alignment]:
    """What causality makes of each offer that it allows, the most accurate first."""
    return [
        alignment
        for name, found in offers.items()
        for offer in found
        if (alignment := within(name, offer, causality))
    ]


def unchecked(offers: Mapping[str, list[Offer]]) -> Alignment | None:
    """The most accurate source that says one thing only, as nothing can tell which is right."""
    for name, found in offers.items():
        if len(found) == 1:
            return Alignment(found[0].line, found[0].bound_ns, name, pid=found[0].pid)
    return None


def by_causality(causality: Causality) -> Alignment:
    line = causality.corridor.calmest
    low, high = causality.corridor.reach(line)
    bound_ns = causality.bound_ns(line)
    return Alignment(line, bound_ns, CAUSALITY, low, high, causality.pairs, rivals=causality.rivals)


def within(source: str, offer: Offer, causality: Causality) -> Alignment | None:
    """An offer moved as far as causality demands; None if that is further than its bound."""
    moved_ns = distance_ns(offer, causality.corridor.clip(offer.line), causality)
    if moved_ns > offer.bound_ns:
        return None
    ends = causality.corridor.ends
    rivals = tuple(
        rival
        for rival in causality.rivals
        if np.abs(offer.line(ends) - rival(ends)).max() <= offer.bound_ns
    )
    proven = causality.proven(offer.line, offer.bound_ns)
    if proven is None:
        return Alignment(offer.line, offer.bound_ns, source, rivals=rivals, pid=offer.pid)
    line = proven.corridor.clip(offer.line)
    moved_ns = distance_ns(offer, line, proven)
    low, high = proven.corridor.reach(line)
    bound_ns = min(offer.bound_ns + moved_ns, proven.bound_ns(line))
    return Alignment(line, bound_ns, source, low, high, proven.pairs, rivals=rivals, pid=offer.pid)


def distance_ns(offer: Offer, line: Line, causality: Causality) -> int:
    ends = causality.corridor.ends
    return int(np.abs(offer.line(ends) - line(ends)).max())


def disagreement(source: str, offers: list[Offer], causality: Causality) -> str | None:
    """By how much the best of a source's offers is off, if it is of these machines."""
    away = (
        (distance_ns(offer, causality.corridor.clip(offer.line), causality) - offer.bound_ns, offer)
        for offer in offers
    )
    away_ns = min((ns for ns, offer in away if offer.sure or ns < ELSEWHERE_NS), default=None)
    if away_ns is None:
        return None
    return f"the clocks by {source} break causality by {units.duration(away_ns)} more than they may"
