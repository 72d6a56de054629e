# SPDX-License-Identifier: Apache-2.0
"""Estimate: a recording in, the arithmetic that needs none beside what was measured out.

The arithmetic: the network takes one round trip, as ping says; the device takes
1/IOPS, as a benchmark of it says; the rest is the hypervisor's or, where there is
none, the systems'. Whatever else there is, it takes for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.analysis.connections import address_of
from iostrata.analysis.prepared import Prepared
from iostrata.columns import NEVER, Ints, distinct, integers
from iostrata.hops import HOPS
from iostrata.model import Basis, Breakdown, Estimate, Guess
from iostrata.stitch import OP_WRITE, requests_of, stacking, whole
from iostrata.trace import Trace

# Where a guess comes from.
GIVEN: Final = "given"
ECHO: Final = "echo"
LEAST: Final = "tcp least round trip"
TCP: Final = "tcp round trip"
SERIAL: Final = "serial requests"
REST: Final = "the rest"
SUM: Final = "their sum"
IGNORED: Final = "ignored"
# Why there is none.
NO_CONNECTION: Final = "no connection seen"
WAITS: Final = "tcp waits for replies"
NO_DEVICE: Final = "no device recorded"
NO_REQUEST: Final = "no request seen"
NEVER_ALONE: Final = "never alone"
UNKNOWN: Final = "others unknown"

NETWORK: Final = "network"
DEVICE: Final = "device"
HYPERVISOR: Final = "hypervisor"
UNATTRIBUTED: Final = "unattributed"
US: Final = 1000


@dataclass(frozen=True)
class Given:
    """What the user measured: a round trip in ns, and requests/s one after the other."""

    ping_ns: float | None = None
    iops: float | None = None


@dataclass(frozen=True)
class _Term:
    """A guess before it is held against anything."""

    ns: float | None
    basis: Basis
    of: str = ""
    samples: int = 0


def estimate(found: Prepared, breakdown: Breakdown, given: Given) -> Estimate:
    """``breakdown``: of the same recording."""
    measured = _measured(breakdown)
    total = sum(measured.values())
    terms: dict[str, _Term] = {}
    if given.ping_ns is not None or NETWORK in measured or _unrecorded(measured):
        terms[NETWORK] = _network(found, given)
    terms[DEVICE] = _device(found, breakdown, given)
    known = [term.ns for term in terms.values() if term.ns is not None]
    rest = _Term(total - sum(known), REST) if len(known) == len(terms) else _Term(None, UNKNOWN)
    guest = found.path.members[0].role in {hop.asker for hop in HOPS if hop.way == HYPERVISOR}
    guesses = tuple(_guesses(measured, terms, rest, guest))
    return Estimate(" and ".join(found.writes.machines), len(breakdown.writes), total, guesses)


def _measured(breakdown: Breakdown) -> dict[str, float]:
    """Mean ns a write in each segment, in the order of the path; then the residual."""
    count, sums = len(breakdown.writes), dict[str, int]()
    for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True):
        sums[layer.segment] = sums.get(layer.segment, 0) + int(times.sum())
    sums[UNATTRIBUTED] = int(breakdown.residual_ns.sum())
    return {segment: ns / count for segment, ns in sums.items()}


def _unrecorded(measured: Mapping[str, float]) -> str:
    """The segment that holds all below the last recorded machine; empty if there is none."""
    below = (hop.beyond for hop in HOPS if hop.beyond in measured and hop.way not in measured)
    return next(below, "")


def _guesses(
    measured: Mapping[str, float], terms: Mapping[str, _Term], rest: _Term, guest: bool
) -> Iterator[Guess]:
    """The terms, and whatever was measured that is none of them."""
    claimed = {**terms, HYPERVISOR: rest} if guest else dict(terms)
    below = _unrecorded(measured)
    others = tuple(one for one in measured if one not in {*claimed, below})
    merged = [one for one in claimed if below and one not in measured]
    for segment, term in claimed.items():
        if segment not in merged:
            yield _guess((segment,), term, measured.get(segment, 0.0))
    if merged:
        known = [ns for one in merged if (ns := claimed[one].ns) is not None]
        together = _Term(sum(known), SUM) if len(known) == len(merged) else _Term(None, UNKNOWN)
        yield _guess((below,), together, measured[below])
        yield from (_guess((one,), claimed[one], None, below) for one in merged)
    if guest:
        yield from (_guess((one,), _Term(0.0, IGNORED), measured[one]) for one in others)
    else:
        yield _guess(others, rest, sum(measured[one] for one in others))


def _guess(
    segments: tuple[str, ...], term: _Term, measured_ns: float | None, merged_into: str = ""
) -> Guess:
    return Guess(segments, term.ns, term.basis, measured_ns, term.of, term.samples, merged_into)


def _network(found: Prepared, given: Given) -> _Term:
    """What the first machine that knows of a connection that carried calls knows of it."""
    if given.ping_ns is not None:
        return _Term(given.ping_ns, GIVEN)
    terms = (_round_trip(member.trace) for member in found.path.members)
    return next((term for term in terms if term), _Term(None, NO_CONNECTION))


def _round_trip(trace: Trace) -> _Term | None:
    """Of echoes, else TCP's own: until an acknowledgement, which may come with the reply only.

    No round trip of the network is longer than the quickest call with its reply, and what
    varies by half of itself is more than one thing.
    """
    calls = trace.points["rpc_call"]
    used = distinct(integers(calls["connection"]))
    if echoes := _echoes(trace, used):
        return _Term(float(np.median(echoes)), ECHO, trace.machine, len(echoes))
    least = [us for each in used if (us := trace.facts.least_rtt_us.get(int(each)))]
    told = trace.points["rpc_connection"]
    rows = np.isin(integers(told["connection"]), used) & (integers(told["rtt_us"]) > 0)
    varies = False
    if least:
        term = _Term(float(min(least)) * US, LEAST, trace.machine, len(least))
    elif rows.any():
        rtt_us, deviation_us = (
            float(np.median(integers(told[name])[rows])) for name in ("rtt_us", "rtt_deviation_us")
        )
        varies = 2 * deviation_us > rtt_us
        term = _Term(rtt_us * US, TCP, trace.machine, int(rows.sum()))
    else:
        return None
    sent, replied = integers(calls["send_ns"]), integers(calls["reply_ns"])
    trips = (replied - sent)[(sent > 0) & (replied > 0)]
    if varies or (term.ns or 0) > trips.min(initial=NEVER):
        return replace(term, ns=None, basis=WAITS)
    return term


def _echoes(trace: Trace, used: Ints) -> list[int]:
    """Round trips in ns of what was sent while recording to the servers of some connections.

    Of all servers where the connections' are not told.
    """
    told = trace.points["rpc_connection"]
    rows = np.isin(integers(told["connection"]), used)
    halves = (told["remote_high"][rows].tolist(), told["remote_low"][rows].tolist())
    servers = {address_of(high, low) for high, low in zip(*halves, strict=True)}
    return [
        echo.round_trip_ns
        for echo in trace.facts.echoes
        if echo.round_trip_ns is not None
        and trace.begin_ns <= echo.sent_ns <= trace.end_ns
        and (not servers or ip_address(echo.address) in servers)
    ]


def _device(found: Prepared, breakdown: Breakdown, given: Given) -> _Term:
    """What one request after the other takes, on the disk that had most of them."""
    if given.iops is not None:
        return _Term(1e9 / given.iops, GIVEN)
    traces = {member.trace.machine: member.trace for member in found.path.members}
    machines = [layer.machine for layer in breakdown.layers if layer.segment == DEVICE]
    if not machines and _unrecorded(_measured(breakdown)):
        return _Term(None, NO_DEVICE)
    trace = traces[(machines or list(traces))[-1]]
    disk, times = _alone(trace)
    if not disk:
        return _Term(None, NO_REQUEST, trace.machine)
    if not len(times):
        return _Term(None, NEVER_ALONE, disk)
    return _Term(float(times.mean()), SERIAL, disk, len(times))


def _alone(trace: Trace) -> tuple[str, Ints]:
    """The busiest disk, and the times of its writes while it had no other request."""
    requests = requests_of(whole(trace))[0]
    stacked = stacking(trace.facts, requests.device_key)[0]
    writes = ~requests.flush & ~requests.returned & (requests.operation == OP_WRITE)
    writes &= ~np.isin(requests.device_key, stacked)
    disks, counts = np.unique(requests.device_key[writes], return_counts=True)
    if not len(disks):
        return "", np.zeros(0, np.int64)
    disk = disks[np.argmax(counts)]
    rows = np.flatnonzero(requests.device_key == disk)
    issue, complete = requests.issue_ns[rows], requests.complete_ns[rows]
    alone = _apart(issue, complete) & writes[rows]
    return trace.facts.device_name(int(disk)), (complete - issue)[alone]


def _apart(begin: Ints, end: Ints) -> NDArray[np.bool_]:
    """Which of some stretches, in order of begin, overlap no other."""
    reach = np.maximum.accumulate(end)
    apart = np.ones(len(begin), np.bool_)
    apart[1:] &= begin[1:] >= reach[:-1]
    apart[:-1] &= end[:-1] <= begin[1:]
    return apart
