# SPDX-License-Identifier: Apache-2.0
"""Record stage: what a machine does of which the recorder records the threads.

By the names that the recorder knows them by (``--duty``, bpf/duties.h).
"""

from __future__ import annotations

from typing import Final

WORKLOAD: Final = "workload"
SERVING: Final = (
    "vmm", "nfsd", "virtiofs", "nbd", "osd", "nvmet", "target", "tgt", "rbd_nbd", "qemu_nbd",
    "storage_daemon",
)  # fmt: skip
"""What is done for other machines."""
ALL: Final = (WORKLOAD, *SERVING)
