# SPDX-License-Identifier: Apache-2.0
"""What a recorded machine was asked for and did not do, as far as its events tell."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row

UNFOLLOWED: Final = Declaration(
    rows=(
        Row(
            "unfollowed",
            "not followed",
            "asked of the machine below, where nothing was found of it",
            ("block_rq_issue", "rpc_call", "rpc_transport"),
            "the recording of the machine below began late or ended early, lost events, or an "
            "image is not raw, so that a place on the guest's disk is not the same place in the "
            "file; a connection ended without an answer: what was sent was lost on its way, or "
            "the server dropped it.",
            "#d4e157",
            "host",
            cause="not followed",
        ),
    ),
    ranks=(Rank("unfollowed", "unfollowed", Depth.WAY),),
)
