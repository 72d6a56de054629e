# SPDX-License-Identifier: Apache-2.0
"""What machines of the lab are at, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from iostrata.record import Progress


class Story:
    def say(self, text: str) -> None:
        print(time.strftime("%T"), text, file=sys.stderr)

    def heard(self, progress: Mapping[str, Progress]) -> None:
        pass
