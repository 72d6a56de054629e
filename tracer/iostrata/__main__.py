# SPDX-License-Identifier: Apache-2.0
"""The program: python -m iostrata, and what is installed as iostrata."""

import signal
from importlib import import_module


def main() -> None:
    """Ctrl-C ends it without a word while its modules are loaded, too: that takes a moment."""
    handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handled:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    cli = import_module("iostrata.cli")
    if handled:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
