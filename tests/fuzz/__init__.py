# SPDX-License-Identifier: Apache-2.0
"""Recordings that nobody recorded: changed field by field, each checksum mended."""
