# SPDX-License-Identifier: Apache-2.0
"""The script stage: what bpf/iostrata.bt printed to a trace, where no recorder may run."""

from iostrata.script.bring import Brought, bring
from iostrata.script.source import script

__all__ = ["Brought", "bring", "script"]
