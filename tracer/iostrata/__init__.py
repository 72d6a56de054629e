# SPDX-License-Identifier: Apache-2.0
"""Where did this synchronous write spend its time?

    import iostrata

    breakdown = iostrata.open("/var/tmp/db").analyse()
    for layer, time_ns in zip(breakdown.layers, breakdown.time_ns):
        print(layer.name, time_ns.mean())

``open`` gives a ``Recording``, that a ``Breakdown``; what can go wrong is in ``errors``. Other
names are the program's own and may change. What is here is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module

# Not from `typing`, which takes a moment: until `main` is reached, Ctrl-C is a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

__all__ = ["Breakdown", "Recording", "__version__", "errors", "open"]

if TYPE_CHECKING:
    from iostrata import errors
    from iostrata.library import Breakdown, Recording, open
else:

    def __getattr__(name: str) -> Any:
        if name == "errors":
            return import_module("iostrata.errors")
        if name in __all__:
            return getattr(import_module("iostrata.library"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
