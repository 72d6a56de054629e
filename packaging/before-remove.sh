#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
set -e
# An .rpm is removed after the next one came.
[ "$1" = 1 ] || find /usr/lib/iostrata -name __pycache__ -prune -exec rm -rf {} +
