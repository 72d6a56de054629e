# SPDX-License-Identifier: Apache-2.0
"""Bench: the synchronous-write methods of pg_test_fsync, and where each one's time went."""
