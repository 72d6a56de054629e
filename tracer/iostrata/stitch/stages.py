# SPDX-License-Identifier: Apache-2.0
"""Requests and spans that wait for them in, what a driver says of their way out, as spans."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at
from iostrata.layers import LAYERS, STACK, Declaration
from iostrata.stitch.requests import Requests
from iostrata.stitch.spans import SpanList, Spans
from iostrata.stitch.window import Window

ASKING = np.array([rank.asks for rank in STACK])


def stages_of(window: Window, requests: Requests, spans: SpanList) -> Spans:
    """The stages that layers declare of requests, wherever a span waits for such a request.

    ``spans``: of any owners; ``Spans.of`` of those that ask, if it is below the number of
    ``requests``, is the request's row.
    """
    found = SpanList()
    layers = [layer for layer in LAYERS if layer.stages and any(_seen(window, layer))]
    if not layers:
        return found.collect()
    so_far = spans.collect()
    of_requests = ASKING[so_far.rank] & (so_far.of >= 0) & (so_far.of < len(requests.key))
    waiting = so_far.where(of_requests)
    for layer in layers:
        edges = _edges(window, requests, layer)
        for stage, begin, end in zip(layer.stages, edges[:-1], edges[1:], strict=True):
            since, until = begin[waiting.of], end[waiting.of]
            found.add(
                np.where((since >= 0) & (until >= 0), waiting.owner, -1),
                stage.rank,
                np.maximum(since, waiting.begin_ns),
                np.minimum(until, waiting.end_ns),
                waiting.of,
            )
    return found.collect()


def _seen(window: Window, layer: Declaration) -> list[int]:
    points = (point for stage in layer.stages for point in stage.ends)
    return [len(window.trace.points[point]) for point in points]


def _edges(window: Window, requests: Requests, layer: Declaration) -> list[Ints]:
    """When each request's stages began, and the last one ended; -1: not seen.

    Of a request that was seen on its way, no time is its device's: a stage whose end was not seen
    is in the one behind it, and the last one that has an end lasts to the request's.
    """
    edges = [requests.issue_ns]
    for stage in layer.stages:
        last = np.full(len(requests.key), -1)
        for point in stage.ends:
            last = np.maximum(last, last_hit(window, point, requests, edges[-1]))
        edges.append(last if stage.ends else requests.complete_ns)
    told = [number + 1 for number, stage in enumerate(layer.stages) if stage.ends]
    ends = np.array([edges[number] for number in told])
    some = ends.max(axis=0) >= 0
    for place, number in enumerate(told):
        later = ends[place:].max(axis=0) >= 0
        instead = np.where(later, edges[number - 1], requests.complete_ns)
        edges[number] = np.where((edges[number] < 0) & some, instead, edges[number])
    return edges


def last_hit(window: Window, point: str, requests: Requests, since_ns: Ints | None = None) -> Ints:
    """When each request was last at a point of its driver; -1: it was not seen there.

    A point that tells since when it could have been (``ready_ns``) means that, unless it was not
    after ``since_ns`` (of each request; none: its issue).
    """
    told = ("ready_ns",) if "ready_ns" in window.trace.points[point].fields else ()
    hits = window.columns(point, "request_key", *told)
    found = AsOf(hits["request_key"], hits["time_ns"]).at_or_before(
        requests.key, requests.complete_ns
    )
    hit = at(hits["time_ns"], found)
    if told:
        least = requests.issue_ns if since_ns is None else np.maximum(since_ns, requests.issue_ns)
        ready = at(hits["ready_ns"], found)
        hit = np.where((ready > least) & (hit >= requests.issue_ns), ready, hit)
    return np.where(hit >= requests.issue_ns, hit, -1)
