# SPDX-License-Identifier: Apache-2.0
"""Report stage: an Estimate as JSON, schema ``iostrata.estimate/1``.

::

    {"schema": "iostrata.estimate/1", "machine", "writes": n, "total_ns": x,
     "guesses": [{"segments": [segment, ...], "guess_ns": null | x, "basis",
                  "of", "samples": n, "measured_ns": null | x,
                  "merged_into": null | segment,
                  "error_ns": null | x, "error_share": null | x}, ...]}

Means in nanoseconds a write, to a thousandth. ``basis`` says where a guess comes
from (``given``, ``tcp round trip``, ``serial requests``, ``the rest``, ``their
sum``, ``ignored``) or why there is none (``no connection seen``, ``no device
recorded``, ``never alone``, ``others unknown``); ``of`` and ``samples`` what it was
read from. A guess that is ``merged_into`` a segment is part of that one's.
``error_share`` is of what was measured.
"""

from __future__ import annotations

import json
from typing import Any, Final

from iostrata.model import Estimate, Guess

SCHEMA: Final = "iostrata.estimate/1"


def render(estimate: Estimate) -> str:
    document = {
        "schema": SCHEMA,
        "machine": estimate.machine,
        "writes": estimate.writes,
        "total_ns": round(estimate.total_ns, 3),
        "guesses": [_guess(guess) for guess in estimate.guesses],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _guess(guess: Guess) -> dict[str, Any]:
    return {
        "segments": list(guess.segments),
        "guess_ns": _rounded(guess.guess_ns, 3),
        "basis": guess.basis,
        "of": guess.of,
        "samples": guess.samples,
        "measured_ns": _rounded(guess.measured_ns, 3),
        "merged_into": guess.merged_into or None,
        "error_ns": _rounded(guess.error_ns, 3),
        "error_share": _rounded(guess.error_share, 6),
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
