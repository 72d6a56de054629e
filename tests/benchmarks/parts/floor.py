# SPDX-License-Identifier: Apache-2.0
"""Programs that do nothing at a recorder's points: what it costs that somebody looks at all.

They are attached as the recorder's are, and begun, asked to end and told apart as those are, so
that they can take a recorder's turn.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from tests.benchmarks.parts.recording import ROOT, Recording

EVENTS = "/sys/kernel/tracing/events"
CALLS = ("sys_enter_", "sys_exit_")
PROGRAMS = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
char LICENSE[] SEC("license") = "GPL";
"""
LOADER = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/libbpf.h>

static const char *const points[][2] = { POINTS };

int main(int argc, char **argv)
{
	struct bpf_object *object;
	char beside[4096];
	sigset_t signals;
	int fd = 1, number;

	snprintf(beside, sizeof(beside), "%s.o", argv[0]);
	object = bpf_object__open_file(beside, NULL);
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	for (int i = 1; i < argc - 1; i++)
		fd = strcmp(argv[i], "--status-fd") ? fd : atoi(argv[i + 1]);
	if (!object || bpf_object__load(object))
		return 1;
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		struct bpf_program *program =
			bpf_object__find_program_by_name(object, points[i][0]);
		struct bpf_link *link =
			strncmp(points[i][1], "sys_e", 5) ?
				bpf_program__attach(program) :
				bpf_program__attach_tracepoint(program, "syscalls", points[i][1]);

		if (!link)
			fprintf(stderr, "%s: not attached\\n", points[i][1]);
	}
	dprintf(fd, "ready\\n");
	sigwait(&signals, &number);
	return 0;
}
"""


@contextlib.contextmanager
def floor_of(recorder: Path) -> Iterator[Path]:
    """A program that attaches nothing to each point that the recorder attaches something to."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        recording = Recording(recorder, place / "recording", os.getpid())
        attached = recording.attached()
        recording.end()
        probes = subprocess.run(
            [str(recorder), "--probes"], cwd=ROOT, check=True, capture_output=True, text=True
        )
        events = [path.name for path in Path(EVENTS).glob("*/*/")]
        yield built(place, sections(probes.stdout, attached, events))


def sections(
    probes: str, attached: Mapping[str, str], events: Collection[str]
) -> list[tuple[str, str, str]]:
    """Of each program that the recorder has attached to the kernel: its name, section and point.

    ``probes``: what it says of its points; ``attached``: types of programs, by their names;
    ``events``: what the kernel has a tracepoint of.
    """
    found = []
    for program, points, *_ in (line.split("\t") for line in probes.splitlines()):
        for point in points.split(",") if program in attached else ():
            if point.startswith(CALLS):
                section = "tp"
            elif point in events:
                section = f"tp_btf/{point}"
            else:
                section = f"{'kprobe' if attached[program] == 'kprobe' else 'fentry'}/{point}"
            known = point in events or not point.startswith(CALLS)
            if known and ":" not in point:
                found.append((program, section, point))
    return found


def built(place: Path, programs: list[tuple[str, str, str]]) -> Path:
    """The program, in ``place``; its programs of BPF are a file beside it, with `.o` at its end."""
    texts = {name: f'SEC("{section}") int {name}(void *ctx)' for name, section, _ in programs}
    bodies = [f"{text} {{ return 0; }}" for text in texts.values()]
    (place / "floor.bpf.c").write_text(PROGRAMS + "\n".join(bodies))
    pairs = ", ".join(f'{{ "{name}", "{point}" }}' for name, _, point in programs)
    (place / "floor.c").write_text(LOADER.replace("POINTS", pairs))
    include = f"-idirafter/usr/include/{os.uname().machine}-linux-gnu"
    for command in (
        ["clang", "-O2", "-g", "-target", "bpf", include, "-c", "floor.bpf.c", "-o", "floor.o"],
        ["cc", "-O2", "floor.c", "-o", "floor", "-lbpf"],
    ):
        subprocess.run(command, cwd=place, check=True)
    return place / "floor"
