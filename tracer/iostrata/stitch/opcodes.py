# SPDX-License-Identifier: Apache-2.0
"""What requests of io_uring and libaio are asked to do, by the kernel's numbers."""

from __future__ import annotations

from typing import Final

# io_uring_op of linux/io_uring.h and IOCB_CMD_ of linux/aio_abi.h
URING_FSYNC, URING_SYNC_FILE_RANGE = 3, 8
URING_WRITES: Final = (2, 5, 23, 30, 61)
URING_SPLICE: Final = 30
URING_READS: Final = (1, 4, 22, 60)
# They write no data: they allocate, or cut off.
URING_FALLOCATE: Final = 17
URING_FTRUNCATE: Final = 55
URING_CHANGES: Final = (URING_FALLOCATE, URING_FTRUNCATE)
URING_FSYNC_DATASYNC: Final = 1
# Of the recorder: flags of a request of io_uring, beside its own (events.h).
RWF_OF_DRAINED: Final = 0x20000000
RWF_OF_LINKED: Final = 0x40000000
RWF_OF_SILENT: Final = 0x80000000
RWF_OF_RECORDER: Final = RWF_OF_DRAINED | RWF_OF_LINKED | RWF_OF_SILENT
AIO_FSYNC, AIO_FDSYNC = 2, 3
AIO_WRITES: Final = (1, 8)
AIO_READS: Final = (0, 7)
