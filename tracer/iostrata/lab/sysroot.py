# SPDX-License-Identifier: Apache-2.0
"""Lab stage: names of Debian's packages in, what programs of another architecture are built against
out: ``python -m iostrata.lab.sysroot arm64 DIRECTORY PACKAGE...``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from iostrata.errors import LabError
from iostrata.lab.packages import unpack


def main(architecture: str, directory: Path, *names: str) -> None:
    """A new ``directory``."""
    shutil.rmtree(directory, ignore_errors=True)
    try:
        unpack(names, directory, architecture)
    except LabError as error:
        sys.exit(f"iostrata: {error}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve(), *sys.argv[3:])
