# SPDX-License-Identifier: Apache-2.0
"""The declarations in, docs/layers.md out: ``python -m iostrata.layers.page``."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from typing import Final

from iostrata.layers import ROWS, Row

WIDTH: Final = 100
HEAD: Final = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Made by `make docs` from the declarations in tracer/iostrata/layers: change those. -->
# Layers

In the order of the table's stack. A layer comes from *points*: places in the kernel where an event
is recorded ([format](format.md) lists them with their fields, `iostrata doctor` says which this
kernel has). A machine that was not recorded has no rows: its time is in what the machine above it
waited for, a `device` row or `rpc.call`.
"""


def page() -> str:
    return HEAD + "".join(f"\n{paragraph}\n" for row in ROWS for paragraph in _section(row))


def _section(row: Row) -> Iterator[str]:
    yield f"## {row.name}"
    yield f"{row.meaning[0].upper()}{row.meaning[1:]}."
    yield filled(f"Points: {', '.join(f'`{point}`' for point in row.points)}.")
    yield filled(f"Grows when: {row.grows}")


def filled(text: str) -> str:
    return textwrap.fill(text, WIDTH - 1, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    sys.stdout.write(page())
