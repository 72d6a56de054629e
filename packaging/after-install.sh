#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
set -e
/usr/lib/iostrata/bin/python3 -m compileall -q /usr/lib/iostrata/lib
