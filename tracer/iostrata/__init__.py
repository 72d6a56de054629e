# SPDX-License-Identifier: Apache-2.0
"""Where did this synchronous write spend its time?"""

from __future__ import annotations

__version__ = "0.1.0"
