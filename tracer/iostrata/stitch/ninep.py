# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: a 9p client's requests in, calls with their times out.

Who asks sleeps until the answer's interrupt lets it go, and only then says so. That sleep's end is
when the answer was there: nothing else ends it, unless the process is killed.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import Ints, at
from iostrata.stitch.rpc import NINEP_REQUEST, Calls, calls_elsewhere
from iostrata.stitch.wakeup import sleeps_of
from iostrata.stitch.window import Window

POINT: Final = "ninep_request"


def ninep_calls_of(window: Window) -> Calls:
    """Each request as the call of who asked, in the order of the events."""
    made = window.columns(
        POINT, "tid", "request_key", "send_ns", "offset_bytes", "size_bytes", "dev", "tag", "type"
    )
    tid, send, end = made["tid"], made["send_ns"], made["time_ns"]
    return calls_elsewhere(
        key=made["request_key"],
        tid=tid,
        xid=made["tag"],
        send_ns=send,
        reply_ns=_answers(window, tid, send, end) if len(tid) else end,
        operation=made["type"] + NINEP_REQUEST,
        device_key=made["dev"],
        end_ns=end,
        end_tid=tid,
        offset_bytes=made["offset_bytes"],
        size_bytes=made["size_bytes"],
    )


def _answers(window: Window, tid: Ints, send_ns: Ints, end_ns: Ints) -> Ints:
    """When each was answered: who did not sleep for it was there to take it."""
    sleeps = sleeps_of(window)
    sleeps = sleeps.rows(np.flatnonzero(sleeps.asleep))
    last = sleeps.resumed.at_or_before(tid, end_ns)
    return np.where(at(sleeps.off_ns, last) >= send_ns, at(sleeps.wake_ns, last), end_ns)
