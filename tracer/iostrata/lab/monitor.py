# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a command for a machine's QEMU in, its answer out, by QMP over a port."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

from iostrata.errors import LabError
from iostrata.lab.pace import Pace
from iostrata.lab.port import Port

PATIENCE_S: Final = 30.0


class Monitor:
    """Errors of its methods: LabError."""

    def __init__(self, port: Port, pace: Pace) -> None:
        self._port = port
        self._pace = pace
        self._numbers = itertools.count(1)
        self._deleted: set[str] = set()
        self._events: set[str] = set()
        with self._port.held():
            # Refused, and rightly, where somebody else did it before.
            self._ask("qmp_capabilities", {})

    def close(self) -> None:
        self._port.close()

    def execute(
        self,
        command: str,
        words: Mapping[str, Any] | None = None,
        *,
        until: str = "",
        within_s: float = PATIENCE_S,
        **arguments: Any,
    ) -> Any:
        """Its answer. ``words``: by QEMU's names; ``arguments``: by those with _ for -.

        ``until``: an event that is waited for: it may come before the answer, or behind it.
        ``within_s``: for how long either is waited for.
        """
        given = {name.replace("_", "-"): value for name, value in arguments.items()} | dict(
            words or {}
        )
        with self._port.held():
            # What was told of earlier ones.
            while (line := self._port.try_line(0)) is not None:
                self._take(line)
            self._events.clear()
            answer = self._ask(command, given, within_s)
            if "error" in answer:
                raise LabError(f"QEMU refuses {command}: {answer['error'].get('desc')}")
            # The monitor for humans has no errors, and says nothing where all went well.
            if isinstance(said := answer.get("return"), str) and said:
                raise LabError(f"QEMU says to {command}: {said.strip()}")
            deadline = self._deadline(within_s)
            while until and until not in self._events:
                self._read(deadline)
        return answer.get("return")

    def plug(self, down: ExitStack, words: Mapping[str, Any] | None = None, **device: Any) -> None:
        """``words``, ``device``: as for ``execute``.

        ``down`` gets what unplugs it again, and waits for the guest to let go of it.
        """
        self.execute("device_add", words, **device)
        down.callback(self.wait_deleted, device["id"])
        down.callback(self.execute, "device_del", id=device["id"])

    def add_object(self, down: ExitStack, **options: Any) -> None:
        self.execute("object-add", **options)
        down.callback(self.execute, "object-del", id=options["id"])

    def wait_deleted(self, device: str) -> None:
        """Until the guest has let go of it."""
        deadline = self._deadline()
        with self._port.held():
            while device not in self._deleted:
                self._read(deadline)
        self._deleted.discard(device)

    def _ask(
        self, command: str, arguments: dict[str, Any], within_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        number = f"{os.getpid()}.{next(self._numbers)}"
        request = {"execute": command, "arguments": arguments, "id": number}
        deadline = self._deadline(within_s)
        self._port.send(json.dumps(request), deadline)
        while (answer := self._read(deadline)).get("id") != number:
            pass
        return answer

    def _deadline(self, within_s: float = PATIENCE_S) -> float:
        return time.monotonic() + self._pace.limit_s(within_s)

    def _read(self, deadline: float) -> dict[str, Any]:
        return self._take(self._port.line(deadline))

    def _take(self, line: str) -> dict[str, Any]:
        """An answer, or an event, which is remembered."""
        try:
            message: dict[str, Any] = json.loads(line)
        except ValueError:
            return {}  # the rest of a line whose reader was killed
        self._events.add(message.get("event", ""))
        if message.get("event") == "DEVICE_DELETED":
            self._deleted.add(message["data"].get("device", ""))
        return message
