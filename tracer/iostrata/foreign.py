# SPDX-License-Identifier: Apache-2.0
"""Text that others chose (names of processes, paths, arguments) to text that harms nobody.

Programs name themselves and their files by any bytes. Those that are no UTF-8 are kept in
text as lone surrogates (PEP 383), so that nothing is lost on its way to a file and back; what
is shown has them, and all that a terminal obeys or that turns the direction of writing,
escaped as ``\\x1b``.
"""

from __future__ import annotations

from typing import Final

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What spreadsheets take for the begin of one."""


MOST_SHOWN: Final = 4096
"""Letters of one text: what is longer is shown up to there, as nobody would read it."""


MOST_SAID: Final = 400
"""Letters of what another machine says is wrong."""


def kept(name: bytes) -> str:
    """Bytes as text that still has all of them, up to the first NUL."""
    return name.partition(b"\0")[0].decode(errors="surrogateescape")


def shown(name: bytes | str) -> str:
    """What can be read on any terminal: letters, and an escape for all that is none.

    A backslash stays one, so that a name with an escape in it may be that of two.
    """
    text = kept(name) if isinstance(name, bytes) else name
    if len(text) > MOST_SHOWN:
        text = f"{text[:MOST_SHOWN]}…"
    return text if text.isprintable() else "".join(map(_letter, text))


def brief(text: str) -> str:
    """``shown`` on one line, of what another machine says: the begin of it."""
    text = shown(" ".join(text[: 2 * MOST_SAID].split()))
    return f"{text[:MOST_SAID]}…" if len(text) > MOST_SAID else text


def lines(text: str) -> str:
    """``shown`` of each of several lines."""
    return "\n".join(map(shown, text.split("\n")))


def cell(text: str) -> str:
    """``shown`` for a table that a spreadsheet reads: none of it is taken for a formula."""
    return f"'{shown(text)}" if text.startswith(FORMULA) else shown(text)


def _letter(one: str) -> str:
    if one.isprintable():
        return one
    number = ord(one)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    return ascii(one)[1:-1]
