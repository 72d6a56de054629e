# SPDX-License-Identifier: Apache-2.0
"""Clock samples of a guest and its host, and KVM's tsc offsets, to a line for each VM.

Both kernels' CLOCK_MONOTONIC follow one counter. The guest's is the host's but for
an offset that the host knows; each machine's samples tell what its clock says at what
count. Which of the host's virtual machines the guest is, if any, nobody says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from iostrata.clock.line import MAX_DRIFT_PPM, Line
from iostrata.clock.offer import Offer
from iostrata.model import Ints
from iostrata.trace import Trace, TscOffset

LOOSE = 4
"""A sample that took so many times the median was interrupted: not used."""
RESET = 1_000_000_000
"""Virtual CPUs' counters differ by less; a reset has them begin anew."""


@dataclass(frozen=True, eq=False)
class Samples:
    """``time_ns`` (CLOCK_MONOTONIC) when the counter was at ``tsc``, give or take ``bound_ns``."""

    time_ns: Ints
    tsc: Ints
    bound_ns: int


def offers_of_tsc(guest: Trace, host: Trace) -> list[Offer]:
    """One for each VM of the host, in order of the VMM's pid, and each time that it was reset."""
    counted = read_samples(guest), read_samples(host)
    if not all(len(samples.time_ns) for samples in counted):
        return []
    machines = groupby(sorted(host.facts.tsc, key=lambda found: found.pid), lambda found: found.pid)
    offers = (
        offer_of_machine(vcpus, *counted) for _, found in machines for vcpus in resets(list(found))
    )
    return [offer for offer in offers if offer]


def resets(vcpus: Sequence[TscOffset]) -> Iterator[Sequence[TscOffset]]:
    """What was told of one machine's virtual CPUs, apart for each time that it was reset."""
    found = sorted(vcpus, key=lambda vcpu: vcpu.offset)
    first = 0
    for place, (one, other) in enumerate(pairwise(found), 1):
        if other.offset - one.offset > RESET:
            yield found[first:place]
            first = place
    yield found[first:]


def read_samples(trace: Trace) -> Samples:
    """A machine's good samples; none where there is no counter."""
    columns = trace.points["clock_sample"].columns("time_ns", "tsc", "width_ns")
    time_ns, tsc, width_ns = (columns[name].astype(np.int64) for name in columns)
    good = tsc != 0
    good &= width_ns <= LOOSE * np.median(width_ns[good]) if good.any() else False
    half = (width_ns[good] + 1) // 2
    return Samples(time_ns[good] + half, tsc[good], int(half.max(initial=0)))


def offer_of_machine(vcpus: Sequence[TscOffset], guest: Samples, host: Samples) -> Offer | None:
    """None where the samples do not overlap in time, so that this is not their VM."""
    offsets = sorted(vcpu.offset for vcpu in vcpus)
    count = counts_of_guest(host.tsc, vcpus[0], offsets[len(offsets) // 2], int(guest.tsc[0]))
    ours = (guest.tsc - guest.tsc[0]).astype(np.float64)
    start_host, start_guest = int(host.time_ns[0]), int(guest.time_ns[0])
    theirs, here = (host.time_ns - start_host), (guest.time_ns - start_guest)
    # Where one machine has a sample and the other has one before and after it.
    of_host = (count >= ours[0]) & (count <= ours[-1])
    of_guest = (ours >= count[0]) & (ours <= count[-1])
    x = np.concatenate((theirs[of_host], np.interp(ours[of_guest], count, theirs)))
    y = np.concatenate((np.interp(count[of_host], ours, here), here[of_guest]))
    if len(x) < 2 or x.max() - x.min() < 1:
        return None
    drift, ahead = np.polyfit(x, y - x, 1)
    if abs(drift) * 1e6 > MAX_DRIFT_PPM:
        return None
    off_ns = np.abs(y - x - (ahead + drift * x)).max()
    spread = (offsets[-1] - offsets[0]) * (here[-1] / ours[-1] if ours[-1] else 0)
    ends = np.rint((x.min(), x.max())).astype(np.int64)
    images = ends + np.rint(ahead + drift * ends).astype(np.int64)
    line = Line.through(ends + start_host, images + start_guest)
    bound_ns = int(np.ceil(off_ns + spread)) + guest.bound_ns + host.bound_ns
    return Offer(line, bound_ns, sure=False, pid=vcpus[0].pid)


def counts_of_guest(tsc: Ints, vcpu: TscOffset, offset: int, start: int) -> np.ndarray:
    """What a guest's counter said at some of its host's, since ``start``: exact at the first."""
    first = int(tsc[0])
    ahead = int(first * vcpu.ratio) + offset - start
    ahead = (ahead + (1 << 63)) % (1 << 64) - (1 << 63)
    return ahead + (tsc - first) * float(vcpu.ratio)
