# SPDX-License-Identifier: Apache-2.0
"""Commits to a database of LMDB for some seconds; the last line: how many.

Each commit makes the data durable, then the page that says which data is current.
"""

import sys
import time

import lmdb

seconds, writemap = float(sys.argv[1]), sys.argv[2] == "writemap"
database = lmdb.open("database", map_size=1 << 28, writemap=writemap)
until, count = time.monotonic() + seconds, 0
while time.monotonic() < until:
    with database.begin(write=True) as transaction:
        transaction.put(b"%d" % (count % 1000), bytes(500))
    count += 1
print("committed", count)
