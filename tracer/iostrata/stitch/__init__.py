# SPDX-License-Identifier: Apache-2.0
"""Events to spans to writes."""

from iostrata.stitch.stitch import Stitched, stitch

__all__ = ["Stitched", "stitch"]
