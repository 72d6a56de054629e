# SPDX-License-Identifier: Apache-2.0
"""Every synchronous write of programs that people trust: what bpftrace saw of it, and they say."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.columns import Ints
from iostrata.errors import STATUS_LOSSES
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from tests.databases.calls import Call, calls, requests, synchronous, watched
from tests.databases.declared import PROGRAMS, Account, Program
from tests.root.conftest import IOSTRATA

# Of the time of all writes: what no event explains, of that which events tell of.
UNATTRIBUTED = 0.01
# Two tools that read the clock at the same call, one after the other.
TOLERANCE, SLACK_NS = 0.01, 10_000
# A program reads its clock outside of the call; how late, its account says.
ACCOUNT_TOLERANCE, ACCOUNT_SLACK_NS = 0.03, 10_000
SHELL = "#!/bin/sh\nset -e\n"


@dataclass(frozen=True)
class Seen:
    """One run: what iostrata makes of it, what bpftrace saw, what the program said.

    ``last_ns``: how long the last call of each write took, as recorded.
    """

    place: Path
    breakdown: Breakdown
    last_ns: Ints
    calls: list[Call]
    requests_ns: list[int]
    said: str


def shell(place: Path, name: str, text: str) -> Path:
    script = place / name
    script.write_text(SHELL + text + "\n")
    script.chmod(0o755)
    return script


def see(program: Program, place: Path) -> Seen:
    """Records the program, under bpftrace's eyes."""
    prepared = subprocess.run(
        [shell(place, "prepare.sh", program.prepare)],
        cwd=place, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert prepared.returncode == 0, prepared.stdout + prepared.stderr
    script, watching, output = shell(place, "run.sh", program.run), place / "calls", place / "said"
    recording = place.with_name(f"{place.name}-recording")
    try:
        with watched(script, watching), output.open("w") as said:
            done = subprocess.run(
                [*IOSTRATA, "record", "--why", "-o", str(recording), "--", str(script)],
                cwd=place, stdout=said, stderr=subprocess.PIPE, text=True, check=False, timeout=180,
            )  # fmt: skip
        assert done.returncode in (0, STATUS_LOSSES), done.stderr + output.read_text()
        opened = open_recording(recording)
        found = analyse(opened)
        (trace,) = opened.traces()
        ends = trace.points["syscall"].integers("tid", "time_ns", "enter_ns")
    finally:
        shutil.rmtree(recording, ignore_errors=True)
    enters = {
        (tid, end_ns): enter_ns
        for tid, end_ns, enter_ns in zip(
            *(ends[name].tolist() for name in ("tid", "time_ns", "enter_ns")), strict=True
        )
    }
    writes = found.writes
    last = [
        end_ns - enters.get((tid, end_ns), end_ns)
        for tid, end_ns in zip(writes.tid.tolist(), writes.end_ns.tolist(), strict=True)
    ]
    return Seen(
        place, found, np.array(last), calls(watching), requests(watching), output.read_text()
    )


def methods(found: Breakdown) -> list[str]:
    names = found.writes.names["method"]
    return [names[code] for code in found.writes.codes["method"].tolist()]


def close(
    ours_ns: float, theirs_ns: float, tolerance: float, slack_ns: float, late: float = 0.0
) -> bool:
    allowed_ns = max(tolerance * theirs_ns, slack_ns)
    return -allowed_ns - late * theirs_ns <= ours_ns - theirs_ns <= allowed_ns


def is_what_bpftrace_saw(seen: Seen) -> None:
    """Of each method, how many and how long; requests of libaio are nothing it looks at."""
    made, ours = synchronous(seen.calls), np.array(methods(seen.breakdown))
    of_calls = {method for method in ours.tolist() if ":" not in method}
    assert of_calls == {durable.last.method for durable in made}
    for method in of_calls:
        theirs = [durable for durable in made if durable.last.method == method]
        mine = ours == method
        assert mine.sum() == len(theirs), method
        their_last_ns = np.mean([durable.last.took_ns for durable in theirs])
        their_latency_ns = np.mean([durable.latency_ns for durable in theirs])
        assert close(seen.last_ns[mine].mean(), float(their_last_ns), TOLERANCE, SLACK_NS), method
        latency_ns = seen.breakdown.writes.latency_ns[mine].mean()
        assert close(latency_ns, float(their_latency_ns), TOLERANCE, SLACK_NS), method


def are_what_bpftrace_saw(seen: Seen) -> None:
    """io_uring's requests: the kernel may hide ends of some from either."""
    mine = np.char.startswith(methods(seen.breakdown), "io_uring:")
    assert abs(int(mine.sum()) - len(seen.requests_ns)) <= 0.01 * len(seen.requests_ns)
    latency_ns = seen.breakdown.writes.latency_ns[mine].mean()
    assert close(latency_ns, float(np.mean(seen.requests_ns)), TOLERANCE, SLACK_NS)


def is_what_it_says(seen: Seen, account: Account) -> None:
    writes = seen.breakdown.writes
    inodes = [path.stat().st_ino for path in seen.place.glob(account.files) if path.is_file()]
    mine = np.isin(writes.inode, inodes) if account.files != "**/*" else np.full(len(writes), True)
    assert abs(int(mine.sum()) - account.count) <= account.spare
    for ours_ns, theirs_us in (
        (seen.last_ns[mine].mean(), account.last_us),
        (writes.latency_ns[mine].mean(), account.whole_us),
    ):
        if theirs_us is not None:
            assert close(
                ours_ns, theirs_us * 1e3, ACCOUNT_TOLERANCE, ACCOUNT_SLACK_NS, account.late
            )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_every_synchronous_write_is_explained(program: Program, place: Path) -> None:
    for tool in ("bpftrace", *program.needs):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    seen = see(program, place)
    total_ns = seen.breakdown.writes.latency_ns.sum()
    left = "\n".join(f"{s.time_ns / 1e3:.1f} us  {s.site}" for s in seen.breakdown.quality.sites)
    share = seen.breakdown.residual_ns.sum() / total_ns
    count = len(seen.breakdown.writes)
    # What the kernel did not tell of, no event explains.
    unseen = sum(each.time_ns for each in seen.breakdown.quality.unseen) * count / total_ns
    print(f"{program.name}: {count} writes, {share:.2%} unattributed, {unseen:.2%} of it untold of")
    assert not seen.breakdown.quality.lost
    is_what_bpftrace_saw(seen)
    if program.requests:
        are_what_bpftrace_saw(seen)
    if program.account:
        is_what_it_says(seen, program.account(seen.said))
    assert abs(share - unseen) <= UNATTRIBUTED, left
