# SPDX-License-Identifier: Apache-2.0
"""``make fuzz``, where atheris is installed: inputs that are led by what of iostrata they reach.

    python -m tests.fuzz.guided -max_total_time=600 [libFuzzer's options] [CORPUS]

libFuzzer keeps those that reach what none before them did, and changes them further. It ends at the
first that is no refusal, and leaves it in a file, which is an input again if it is named.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Final

OPTIONS: Final = ("-timeout=10", "-rss_limit_mb=1536", "-len_control=0", "-max_len=256")


def main() -> None:
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["iostrata"]):
        drawn = importlib.import_module("tests.fuzz.drawn")
        sources = importlib.import_module("tests.fuzz.sources")
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        found = sources.sources(place)
        words = [sys.argv[0], *OPTIONS, *sys.argv[1:]]
        atheris.Setup(words, lambda data: drawn.led(data, found, place))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
