# SPDX-License-Identifier: Apache-2.0
"""Workload: ``python -m iostrata.workload FILE SECONDS PHASES``."""

from __future__ import annotations

import os
import signal
import sys

if __name__ == "__main__":
    # What it writes besides the file is part of a recording.
    os.umask(0o077)
    # Ctrl-C ends it without a word while it is still being loaded.
    signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    from iostrata.workload import main

    sys.exit(main(*sys.argv[1:]))
