# SPDX-License-Identifier: Apache-2.0
"""Several machines: what each may answer, how each may end, and what is left of it then."""

from __future__ import annotations

import io
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iostrata.cli import status_of
from iostrata.record.interruption import Interruption
from iostrata.record.machines import END_LIMIT_S, Plan, stop
from iostrata.record.permission import BTF
from iostrata.record.recorder import Request
from iostrata.record.ssh import Ssh, SshSession
from tests.record.far import UNTIL_THEN, Far, keepers

pytestmark = pytest.mark.skipif(not BTF.exists(), reason="this kernel has no BTF")
PATIENCE_S = 60
RECORD = ("record", "-o", "out", "--machine", "guest=ssh:vm", "--machine", "server=ssh:nas")


def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("out/recording.json").read_text())
    return found


def names(part: str) -> list[str]:
    return [machine["name"] for machine in recorded().get(part, [])]


def exchanges(machine: str) -> list[list[int]]:
    head, *rows = Path(f"out/{machine}/facts/exchange").read_text().splitlines()
    assert head == "sent_ns\tremote_ns\treceived_ns"
    return [[int(cell) for cell in row.split("\t")] for row in rows]


def test_both_are_recorded(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    command = ("sh", "-c", "cat; echo to stdout; echo to stderr >&2; sleep 1.2; exit 3")
    assert status_of([*RECORD, "--", *command]) == 3
    captured = capfd.readouterr()
    assert captured.out == "to stdout\n"
    assert "to stderr\n" in captured.err
    assert "recorded 200 events" in captured.err
    assert "same machine" in captured.err
    assert "warning: machine server: RPC is not loaded" in captured.err
    found = recorded()
    assert found["command"] == list(command)
    assert found["exit_status"] == 3
    facts = [machine.pop("facts") for machine in found["machines"]]
    assert found["machines"] == [
        {"name": name, "role": name, "directory": name} for name in ("guest", "server")
    ]
    for name, of_machine in zip(names("machines"), facts, strict=True):
        files = {file.name: file.stat().st_size for file in Path(f"out/{name}/facts").iterdir()}
        assert {fact: told["size"] for fact, told in of_machine.items()} == files
        rows = exchanges(name)
        assert len(rows) >= 23
        assert all(sent <= received for sent, _, received in rows)
        assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert status_of(["replay", "out/guest"]) == 0
    assert far.left_over() == []
    eventually(lambda: not keepers(far.places))


def test_what_passes_one_page_cache_may_be_in_the_next(far: Far) -> None:
    """Who serves an O_DIRECT read may do so from its page cache: of all that it reads is told."""
    assert status_of([*RECORD, "--op", "direct", "--", "true"]) == 0
    words = far.words("vm"), far.words("nas")
    assert [one[one.index("--op") + 1] for one in words] == ["direct", "read"]


def test_a_workload_below_and_a_duration(far: Far) -> None:
    """Whoever records no workload is told so."""
    arguments = ["--workload-on", "server", "--comm", "db", "--buffer", "64"]
    assert status_of([*RECORD, *arguments, "--", "true"]) == 0
    words = {name: far.words(name) for name in ("vm", "nas")}
    assert "--path" in words["vm"]
    assert "--comm" not in words["vm"]
    assert "--comm" in words["nas"]
    assert "--path" not in words["nas"]
    assert "--duty workload --duty vmm" in " ".join(words["nas"])
    assert "--buffer" in words["nas"]
    assert "--buffer" in words["vm"]


@pytest.mark.parametrize(
    ("program", "script", "status", "story"),
    [
        ("shut", "", 6, "machine server: ssh nas: ssh: connect to host nas port 22: Connection re"),
        ("id", "echo 1000", 4, "machine server: recording with eBPF needs root"),
        ("uname", "echo mips", 6, "machine server: its CPU is of another type: mips"),
        ("mktemp", "exit 1", 6, "machine server: a program can be written and run in none of"),
        ("sha256sum", "echo 0 recorder", 6, "machine server: the recorder did not arrive whole"),
        ("chmod", "echo full >&2; exit 1", 6, "machine server: a program can be written and run"),
        ("verdict", "EPERM", 6, "machine server: its kernel does not show device"),
        ("failing", "out of luck", 6, "machine server: the recorder: out of luck"),
        ("vanishing", "", 6, "machine server: the connection to its recorder was lost"),
    ],
)
def test_what_a_machine_cannot_do_is_said_before_anything_runs(
    program: str,
    script: str,
    status: int,
    story: str,
    far: Far,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if program in ("verdict", "failing", "vanishing"):
        far.has("nas", program, script)
    else:
        far.says("nas", program, script)
    assert status_of([*RECORD, "--", "touch", "ran"]) == status
    captured = capfd.readouterr()
    assert story in captured.err
    assert "Traceback" not in captured.err
    assert not Path("ran").exists()
    assert not Path("out").exists()
    assert far.left_over() == []


def test_a_greeting_names_no_directory(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    """What it names would be removed at the end."""
    precious = far.places.parent / "precious"
    precious.mkdir()
    far.says("nas", "mktemp", "exit 1")
    far.says("nas", "cat", f"echo boot; echo directory {precious}")
    assert status_of([*RECORD, "--", "true"]) == 6
    assert "a program can be written and run in none of" in capfd.readouterr().err
    assert precious.exists()


def test_who_is_killed_leaves_keepers_there(far: Far) -> None:
    """They remove what was made there when nobody comes back for it."""
    far.happens("nas", "touch $MACHINE/recording")
    pid = os.fork()
    if not pid:
        status_of([*RECORD, "--", "sleep", "60"])
        os._exit(0)
    try:
        eventually((far.directory / "nas" / "recording").exists)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    first, second = far.left_over()
    for place in (first, second):
        assert (far.places / place / "trace" / "metadata").exists()
        assert len(keepers(far.places / place)) == 1


def eventually(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_place_that_is_full_is_left_for_another(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, free = far.places / "full", far.places / "free"
    full.mkdir()
    free.mkdir()
    monkeypatch.setattr(Ssh, "places", (str(full), str(free)))
    tried = far.places / "tried"
    script = f'[ -e {tried} ] && exec /usr/bin/head "$@"; touch {tried}; exit 1'
    far.says("nas", "head", script)
    assert status_of([*RECORD, "--", "true"]) == 0
    assert tried.exists()
    assert [*full.iterdir(), *free.iterdir()] == []
    assert str(free) in " ".join(far.words("nas"))


def test_a_greeting_is_no_checksum(far: Far) -> None:
    far.says("nas", "sha256sum", "echo Welcome to nas; exec /usr/bin/sha256sum $@")
    assert status_of([*RECORD, "--", "true"]) == 0


def test_another_ssh_is_named_where_it_fails(
    far: Far, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IOSTRATA_SSH", "/nonexistent/ssh -v")
    assert status_of([*RECORD, "--", "true"]) == 6
    told = capfd.readouterr().err
    assert "/nonexistent/ssh -v cannot be run: No such file" in told
    assert "  try: IOSTRATA_SSH names what is used instead of ssh" in told


def test_a_machine_that_nobody_can_enter_leaves_nothing(far: Far) -> None:
    far.has("nas", "shut", "")
    assert status_of([*RECORD, "--", "true"]) == 6
    assert not Path("out").exists()


def test_a_machine_that_is_lost_costs_its_tail(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    far.dies("nas", "echo 'Connection reset' >&2")
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 0
    assert capfd.readouterr().err.count("warning: machine server: the connection") == 1
    (guest, server) = recorded()["machines"]
    assert "note" not in guest
    assert server["note"].startswith("the connection to its recorder was lost: Connection reset")
    assert Path("out/server/metadata").exists()
    assert far.left_over() == []


@pytest.mark.parametrize(
    "said",
    ["progress much", "progress 1 -1 nan", "done 1e9", "ready x", "clock 7", "clock 1" + "0" * 30],
)
def test_what_no_recorder_says(said: str, far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    far.speaks("nas", f"echo '{said}'")
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 0
    printed = capfd.readouterr().err
    assert "warning: machine server: the connection to its recorder was lost: its rec" in printed
    assert "bug" not in printed
    assert names("machines") == ["guest", "server"]


def test_what_has_no_end_is_not_kept(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    far.speaks("nas", "head -c 1000000 /dev/zero | tr '\\0' x")
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 0
    assert "what it says has no end" in capfd.readouterr().err


class Endless(io.FileIO):
    """Always has something to say, and nothing that is a recorder's line."""

    reads = 0

    def __init__(self) -> None:
        super().__init__("/dev/zero")

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        return (super().read(size) or b"") if self.reads < 100 else b""


def test_who_never_stops_speaking_keeps_nobody(tmp_path: Path) -> None:
    """The others are heard meanwhile, and Ctrl-C is."""
    with Endless() as said, (tmp_path / "control").open("wb") as control:
        process: Any = SimpleNamespace(stderr=said, stdin=control, wait=lambda limit_s: 0)
        session = SshSession(process, shows_output=False)
        assert session.lines(0) == []
        assert session.alive
        assert said.reads == 1


def test_an_answer_without_end_is_refused(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    far.says("nas", "sha256sum", "exec yes")
    assert status_of([*RECORD, "--", "touch", "ran"]) == 6
    assert "machine server: what it says has no end" in capfd.readouterr().err
    assert not Path("ran").exists()
    assert far.left_over() == []


def test_a_machine_that_falls_silent_is_waited_for_no_longer(
    far: Far, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("iostrata.record.answer.SLOW_LIMIT_S", 2.0)
    far.happens(
        "nas", """printf '#!/bin/sh\\nexec sleep 30\\n' >$MACHINE/wc; chmod +x $MACHINE/wc"""
    )
    began = time.monotonic()
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 0
    assert time.monotonic() - began < 25
    assert "machine server: it sent 15 bytes in 2 s; what it recorded is in nas:" in (
        capfd.readouterr().err
    )
    assert names("machines") == ["guest"]
    assert names("absent") == ["server"]


def test_a_command_cannot_speak_for_its_recorder(
    far: Far, capfd: pytest.CaptureFixture[str]
) -> None:
    forged = r"\036done 0\n\036failed forged\n\036"
    command = ("sh", "-c", f"printf '{forged}' >&2; sleep 1; exit 3")
    assert status_of([*RECORD, "--", *command]) == 3
    assert "\x1edone 0\n\x1efailed forged\n\x1e" in capfd.readouterr().err
    assert recorded()["exit_status"] == 3


def test_a_machine_that_stays_away_is_absent(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    far.dies("nas", 'touch "$MACHINE/shut"')
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 0
    assert "Connection refused; what it recorded is in nas:" in capfd.readouterr().err
    assert names("machines") == ["guest"]
    assert names("absent") == ["server"]
    assert len(keepers(far.places)) == 1
    # Not tidied up: it is all there is of that machine.
    (place,) = far.left_over()
    assert place in recorded()["absent"][0]["note"]
    assert (far.places / place / "trace" / "metadata").exists()


def test_a_reboot_is_named(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    other_boot = 'case $1 in *boot_id) echo other;; *) exec /bin/cat "$@";; esac'
    script = f"printf '#!/bin/bash\\n%s\\n' '{other_boot}' >$MACHINE/cat; chmod +x $MACHINE/cat"
    far.dies("nas", script)
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 0
    assert "machine server: it was rebooted while it was recorded" in capfd.readouterr().err
    assert recorded()["machines"][1]["note"] == "it was rebooted while it was recorded"


def test_the_workloads_machine_is_lost(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    far.dies("vm")
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 6
    captured = capfd.readouterr().err
    assert "iostrata: machine guest: the connection to its recorder was lost" in captured
    assert names("machines") == ["guest", "server"]
    assert far.left_over() == []


def test_ctrl_c_ends_all_in_order(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    far.happens("vm", f"kill -INT {os.getpid()}")
    assert status_of([*RECORD, "--", "sleep", "60"]) == 130
    assert names("machines") == ["guest", "server"]
    assert far.left_over() == []


def test_ctrl_c_before_it_begins(far: Far) -> None:
    far.says("nas", "sha256sum", f"kill -INT {os.getpid()}; sleep 0.2")
    assert status_of([*RECORD, "--", "touch", "ran"]) == 130
    assert not Path("ran").exists()
    assert far.left_over() == []


@pytest.mark.parametrize(
    ("arguments", "story"),
    [
        (["--machine", "a:host=local", "--machine", "a:server=ssh:x"], "two machines are named a"),
        (["--machine", "vm=local", "--machine", "host=ssh:x"], "what part does vm have"),
        (["--machine", "vm:disk=local"], "there is no role disk"),
        (["--machine", "guest"], "'guest' is no machine"),
        (["--machine", "../x:host=local"], "is no machine"),
        (["--machine", "guest=telnet:x"], "entered by local or ssh:DESTINATION"),
        (["--machine", "guest=ssh:"], "ssh: names no machine"),
        (["--machine", "guest=ssh:-oProxyCommand=x"], "names no machine"),
        (["--machine", "guest=local", "--workload-on", "host"], "there is no such machine"),
        (["--workload-on", "host"], "is for several machines"),
    ],
)
def test_bad_machines(
    arguments: list[str], story: str, far: Far, capfd: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["record", "-o", "out", *arguments, "--", "true"]) == 2
    captured = capfd.readouterr().err
    assert story in captured
    assert "  try: " in captured
    assert not Path("out").exists()


def test_a_place_that_cannot_be_written(far: Far, capfd: pytest.CaptureFixture[str]) -> None:
    Path("out").touch()
    assert status_of([*RECORD, "--", "true"]) == 2
    assert "out is a file" in capfd.readouterr().err


def test_slow_machines_are_given_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    heard_s: list[float] = []
    given_up: list[float] = []
    monkeypatch.setattr("iostrata.record.machines.time.monotonic", lambda: sum(heard_s))
    member: Any = SimpleNamespace(
        running=True, stop=lambda: None, ask_clock=lambda count: None, keep=lambda: None,
        hear=heard_s.append, give_up=lambda: given_up.append(sum(heard_s)),
    )  # fmt: skip
    stop(Plan(Request(Path("out"), ()), (), "vm", slowness=3), member, [member], Interruption())
    assert given_up == pytest.approx([3 * END_LIMIT_S, 6 * END_LIMIT_S], abs=1)


def test_a_recorder_hears_of_us_while_another_one_begins(far: Far) -> None:
    """It ends when nobody speaks to it, as whoever started it is gone then."""
    far.has("vm", "impatient", "")
    far.has("nas", "slow", "")
    assert status_of([*RECORD, "--", "true"]) == 0
    assert names("machines") == ["guest", "server"]


def test_of_a_machine_that_crashed_nothing_may_be_on_its_disk(
    far: Far, capfd: pytest.CaptureFixture[str]
) -> None:
    """What was written to its files shortly before is not in them: the others' recordings are."""
    other_boot = 'case $1 in *boot_id) echo other;; *) exec /bin/cat "$@";; esac'
    script = f"""printf '#!/bin/bash\n%s\n' '{other_boot}' >$MACHINE/cat; chmod +x $MACHINE/cat
        for file in $(sed 's/.* -o //; s/ .*//' $MACHINE/words)/*; do
            [ -d $file ] || : >$file
        done"""
    far.dies("nas", script)
    assert status_of([*RECORD, "--", *UNTIL_THEN]) == 0
    why = "it was rebooted while it was recorded; nothing of what it recorded had come to its disk"
    assert f"warning: machine server: {why}\n" in capfd.readouterr().err
    assert names("machines") == ["guest"]
    assert [(each["name"], each["note"]) for each in recorded()["absent"]] == [("server", why)]
    assert not Path("out/server").exists()
    assert far.left_over() == []
