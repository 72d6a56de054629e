# SPDX-License-Identifier: Apache-2.0
"""Record stage: one machine of several: checked, given a recorder, listened to, tidied up."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from iostrata.errors import IostrataError, RecorderError
from iostrata.foreign import brief
from iostrata.record.diagnosis import Verdict, read_probes, verdicts
from iostrata.record.exchange import Probe, write_exchange
from iostrata.record.place import KEEPER, TIDY, directory_of
from iostrata.record.recorder import NAME, Request, arguments, find_recorder
from iostrata.record.requirements import CHECK, check_machine, check_visibility, facts_of
from iostrata.record.status import Progress, Status
from iostrata.record.transport import Session, Transport
from iostrata.trace import METADATA

CHECK_LIMIT_S: Final = 60.0
ANSWER_LIMIT_S: Final = 2.0
TRACE: Final = "trace"
UNWRITTEN: Final = "nothing of what it recorded had come to its disk"
# A recorder whose connection was lost, as it ends by itself; not what got its number since.
LOST: Final = """
echo "boot $(cat /proc/sys/kernel/random/boot_id)"
tries=0
while [ "$(readlink "/proc/$1/exe")" = "$2" ] && [ $tries -lt 50 ]; do
    kill "$1"
    sleep 0.1
    tries=$((tries + 1))
done 2>/dev/null
"""


@dataclass(frozen=True)
class Planned:
    """A machine to be recorded.

    ``recorder``: where one lies there already, that is known to work; else it is copied.
    """

    name: str
    role: str
    transport: Transport
    recorder: str = ""


@dataclass
class Member:
    """``note``: what is wrong with its recording, or empty. ``boot_id`` and ``directory``: there.

    ``abandoned``: its trace could not be fetched, and stays there; ``tidied``: nothing does.
    ``keeper``: the process there that removes the directory if we never do; empty: none.

    Errors of all methods: IostrataError, with the machine's name.
    """

    planned: Planned
    note: str = ""
    boot_id: str = ""
    directory: str = ""
    keeper: str = ""
    architecture: str = ""
    recorder: str = ""
    is_ready: bool = False
    fetched: bool = False
    abandoned: bool = False
    tidied: bool = False
    status: Status = field(default_factory=Status)
    session: Session | None = None
    asked_count: int = 0
    probes: list[Probe] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.planned.name

    @property
    def visibility(self) -> tuple[Verdict, ...]:
        """What its recorder sees, once it is ready."""
        return verdicts(read_probes(self.status.probes))

    @property
    def running(self) -> bool:
        return self.session is not None and self.session.alive and self.status.done is None

    def check(self) -> None:
        """That a recorder can run there; makes a directory for it."""
        with self._named():
            transport = self.planned.transport
            words = ["sh", "-c", CHECK, "sh", KEEPER if transport.is_far else ""]
            found = facts_of(transport.run([*words, *transport.places], CHECK_LIMIT_S).output)
            self.boot_id, self.keeper = found.get("boot", ""), found.get("keeper", "")
            self.directory = directory_of(found, transport.places)
            self.architecture = found.get("architecture", "")
            check_machine(found, transport)

    def install(self) -> None:
        """Copies the recorder there."""
        self.recorder = self.planned.recorder
        if self.recorder:
            return
        self.recorder = f"{self.directory}/{NAME}"
        with self._named():
            source, transport = find_recorder(self.architecture), self.planned.transport
            transport.put(source, self.recorder)
            said = transport.run(["sha256sum", self.recorder], CHECK_LIMIT_S).output
            # A shell there may say more, such as a greeting.
            if hashlib.sha256(source.read_bytes()).hexdigest() not in said.split():
                raise RecorderError(
                    f"the recorder did not arrive whole: {said.strip()}",
                    "check its disk, and try again",
                )

    def start(self, request: Request) -> None:
        """Begins to record; ``ready`` follows. ``request.directory`` does not matter."""
        words = _placed(request, f"{self.directory}/{TRACE}")
        with self._named():
            self.session = self.planned.transport.start([self.recorder, *words])

    @property
    def starting(self) -> bool:
        return self.running and not self.is_ready

    def check_visibility(self) -> None:
        """That it records, and sees what it must."""
        self.check_running()
        with self._named():
            check_visibility(self.visibility)

    def check_running(self) -> None:
        if not (self.is_ready and self.running):
            with self._named():
                raise self.error() or RecorderError(
                    "the recorder does not begin to record"
                    if self.running
                    else "the recorder ended by itself"
                )

    def go(self) -> None:
        """Its command begins."""
        if self.session:
            self.session.ask("go")

    def hear(self, limit_s: float) -> None:
        """Takes what its recorder told."""
        if not (self.session and self.running):
            return
        try:
            for line in self.session.lines(limit_s):
                self.status.take(line, self)
            if len(self.status.clocks_ns) > self.asked_count:
                raise RecorderError("its recorder tells the time without being asked")
        except RecorderError as error:
            self.session.close()
            self.session.why = str(error)

    def ready(self) -> None:
        self.is_ready = True

    def progress(self, progress: Progress) -> None:
        """Kept in ``status.last``."""

    def keep(self) -> None:
        """Its recorder hears that we are: after a minute of silence it would end. What it answers
        is taken when next something is heard."""
        if self.session and self.running:
            self.session.ask("clock")
            self.asked_count += 1

    def ask_clock(self, count: int) -> None:
        """Probes of its clock; fewer if it does not answer in time."""
        while count and self.session and self.running and self._probe(self.session):
            count -= 1

    def _probe(self, session: Session) -> bool:
        sent_ns = received_ns = time.monotonic_ns()
        session.ask("clock")
        self.asked_count += 1
        while len(self.status.clocks_ns) < self.asked_count:
            self.hear(ANSWER_LIMIT_S)
            received_ns = time.monotonic_ns()
            if not self.running or received_ns - sent_ns > ANSWER_LIMIT_S * 1e9:
                return False
        self.probes.append(Probe(sent_ns, self.status.clocks_ns[self.asked_count - 1], received_ns))
        return True

    def stop(self) -> None:
        if self.session:
            self.session.stop()

    def give_up(self) -> None:
        """It is waited for no longer."""
        if self.session and self.running:
            self.session.close()

    def error(self) -> IostrataError | None:
        """Why it ended badly; None: it did not."""
        if self.status.done is not None:
            error = self.status.error(self.status.done)
            return error and _brief(error)
        if self.session and not self.session.alive:
            why = f": {self.session.why}" if self.session.why else ""
            return RecorderError(brief(f"the connection to its recorder was lost{why}"))
        return None

    def see_loss(self) -> bool:
        """Whether it has ended badly since it was last asked; ``note`` then says how."""
        if self.running or self.note:
            return False
        seconds = f" (after {self.status.last.seconds:.0f} s)" if self.status.last else ""
        if error := self.error():
            self.note = f"{error}{seconds}"
        return bool(self.note)

    def fetch(self, trace: Path) -> None:
        """Its trace, as far as it got, becomes the directory ``trace`` here."""
        with self._named():
            transport = self.planned.transport
            if self.status.done is None:
                words = ["sh", "-c", LOST, "sh", str(self.status.pid), self.recorder]
                found = facts_of(transport.run(words, CHECK_LIMIT_S).output)
                if found.get("boot") != self.boot_id:
                    self.note = "it was rebooted while it was recorded"
            transport.fetch(f"{self.directory}/{TRACE}", trace)
            if not _has_begun(trace):
                # Nobody can read it, nor the others' with it.
                shutil.rmtree(trace, ignore_errors=True)
                self.note = "; ".join(filter(None, [self.note, UNWRITTEN]))
                return
            self.fetched = True
            write_exchange(trace, self.probes)

    def tidy(self) -> None:
        """Leaves nothing there, unless it is abandoned; ``tidied`` then."""
        if self.session:
            self.session.close()
        if self.directory and not self.abandoned:
            with suppress(RecorderError):
                words = ["sh", "-c", TIDY, "sh", self.directory, self.keeper]
                self.tidied = not self.planned.transport.run(words, CHECK_LIMIT_S).status

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except IostrataError as error:
            raise _brief(error, f"machine {self.name}: ") from error


def _has_begun(trace: Path) -> bool:
    """Of a machine that crashed, what was written last is not on its disk."""
    metadata = trace / METADATA
    return metadata.is_file() and metadata.stat().st_size > 0


def _brief(error: IostrataError, whose: str = "") -> IostrataError:
    """Whatever words of that machine's are in it."""
    return type(error)(f"{whose}{brief(str(error))}", brief(error.hint))


def _placed(request: Request, directory: str) -> list[str]:
    return arguments(replace(request, directory=Path(directory)))
