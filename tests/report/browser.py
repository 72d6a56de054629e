# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, spoken to over two pipes by the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

NAME: Final = "chromium"
SWITCHES: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip
# Each loads, asks for or reports something; what they tell is kept.
DOMAINS: Final = ("Page", "Runtime", "Log", "Network")
LIMIT_S: Final = 60.0


class Browser:
    """One page of it. ``told``: the events so far, each with its method and params."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number, self._session, self._rest = 0, "", b""
        self.told: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        found = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in DOMAINS:
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to one command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])

    def open(self, file: Path) -> None:
        """Returns when it has loaded."""
        self.told.clear()
        self.ask("Page.navigate", url=file.as_uri())
        while not self.of("Page.loadEventFired"):
            self._next()

    def of(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.told if event["method"] == method]

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """What the page's scripts threw or printed, and what the browser logged."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event for kind in kinds for event in self.of(kind)]

    def run(self, expression: str) -> Any:
        """What a piece of JavaScript comes to, awaited if it is a promise."""
        found = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, (expression, found["exceptionDetails"])
        return found["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                     windowsVirtualKeyCode=code, **({"text": text} if text else {}))  # fmt: skip

    def look(self, width: int, height: int = 900, scheme: str = "light") -> None:
        """A window of this size, in ``light`` or ``dark``."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", features=features)

    def picture(self) -> bytes:
        """All of the page as PNG."""
        found = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(found["data"])

    def printed(self) -> bytes:
        """The page as PDF."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._answers], [], [], LIMIT_S)[0], "the browser says nothing"
            part = os.read(self._answers, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        if "method" in found:
            self.told.append(found)
        return found


@contextmanager
def started(profile: Path) -> Iterator[Browser]:
    """``profile``: a directory of its own, which does not exist yet."""
    theirs_in, commands = os.pipe()
    answers, theirs_out = os.pipe()
    process = subprocess.Popen(
        # It reads descriptor 3 and writes descriptor 4.
        ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", NAME, *SWITCHES,
         f"--user-data-dir={profile}"],
        pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(commands, answers)
    finally:
        process.kill()
        process.wait()
        os.close(commands)
        os.close(answers)
