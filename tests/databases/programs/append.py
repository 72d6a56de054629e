# SPDX-License-Identifier: Apache-2.0
"""One thread a file that is named: appends and synchronises for some seconds.

The last line: how many times, and how long that took, in us in the mean.
"""

import os
import sys
import threading
import time

BLOCK = bytes(500)
seconds, *names = sys.argv[1:]
until = time.monotonic() + float(seconds)
took: list[float] = []


def append(name: str) -> None:
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    while (begin := time.monotonic()) < until:
        os.write(file, BLOCK)
        os.fdatasync(file)
        took.append(time.monotonic() - begin)


threads = [threading.Thread(target=append, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("appended", len(took), sum(took) / len(took) * 1e6)
