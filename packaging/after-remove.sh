#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What was compiled, and folders that an .rpm does not own; an .rpm's upgrade says 1.
set -e
case $1 in
0 | remove) rm -rf /usr/lib/iostrata ;;
esac
