# SPDX-License-Identifier: Apache-2.0
"""The layers a write's time can be in, and which of two holds it when both are at work."""

from iostrata.layers.stack import HOPS, RANK, ROWS, STACK, UNFOLLOWED, Rank, Row

__all__ = ["HOPS", "RANK", "ROWS", "STACK", "UNFOLLOWED", "Rank", "Row"]
