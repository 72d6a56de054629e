# SPDX-License-Identifier: Apache-2.0
"""Spans to segments to figures."""

from iostrata.attribute.summarise import summarise
from iostrata.attribute.sweep import attribute

__all__ = ["attribute", "summarise"]
