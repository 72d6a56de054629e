# SPDX-License-Identifier: Apache-2.0
"""Inserts rows into a database of SQLite for some seconds; the last line: how many."""

import sqlite3
import sys
import time

seconds, mode = float(sys.argv[1]), sys.argv[2]
database = sqlite3.connect("database", isolation_level=None)
database.execute(f"PRAGMA journal_mode={mode}")
database.execute("PRAGMA synchronous=FULL")
database.execute("CREATE TABLE numbers (number INTEGER, text BLOB)")
until, count = time.monotonic() + seconds, 0
while time.monotonic() < until:
    database.execute("INSERT INTO numbers VALUES (?, ?)", (count, bytes(500)))
    count += 1
database.close()
print("inserted", count)
