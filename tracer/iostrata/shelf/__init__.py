# SPDX-License-Identifier: Apache-2.0
"""What a large recording came to, kept beside it; of what is known there, nothing is analysed,
nor is what analyses loaded."""

from iostrata.shelf.answers import answered, known
from iostrata.shelf.breakdowns import analysed
from iostrata.shelf.files import bytes_of

__all__ = ["analysed", "answered", "bytes_of", "known"]
