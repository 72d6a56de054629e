# SPDX-License-Identifier: Apache-2.0
"""The program: python -m iostrata, and what is installed as iostrata."""

# Of the interpreter itself: `signal` loads others, which takes a moment.
import _signal  # type: ignore[import-not-found]
from importlib import import_module


def main() -> None:
    """Ctrl-C ends it without a word while its modules are loaded, too: that takes a moment."""
    handled = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if handled:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    cli = import_module("iostrata.cli")
    if handled:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
