# SPDX-License-Identifier: Apache-2.0
"""Lab stage: what is wrong with a key of a scenario, in words, and what to write instead."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator

# Key, problem, hint.
Problems = Iterator[tuple[str, str, str]]


def choice(wrong: str, known: Iterable[str], what: str) -> str:
    """What to give instead."""
    close = difflib.get_close_matches(wrong, list(known), n=1)
    return f"did you mean {close[0]}?" if close else f"known {what}s: {', '.join(sorted(known))}"


def missing(name: str, known: list[str], what: str) -> tuple[str, str]:
    return f"there is no {what} {name}", (
        choice(name, known, what) if known else f"declare a {what} before it"
    )


def unless_known(key: str, name: str, known: Iterable[str], what: str) -> Problems:
    listed = list(known)
    if name not in listed:
        yield key, *missing(name, listed, what)


def repeated(key: str, names: Iterable[str]) -> Problems:
    for name, count in Counter(names).items():
        if count > 1:
            yield key, f"{count} are named {name}", "give each a name of its own"
