# SPDX-License-Identifier: Apache-2.0
"""``python -m iostrata``: the command without its script."""

from __future__ import annotations

from iostrata.cli import main

if __name__ == "__main__":
    main()
