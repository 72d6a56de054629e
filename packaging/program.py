#!/usr/lib/iostrata/bin/python3
# SPDX-License-Identifier: Apache-2.0
from iostrata.__main__ import main

main()
