# SPDX-License-Identifier: Apache-2.0
"""The trace stage: one machine's CTF directory to columns, and back."""
