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
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.parts.recording import ROOT, Recording

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
	struct bpf_object *object = bpf_object__open_file(OBJECT, NULL);
	sigset_t signals;
	int fd = 1, number;

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
        points = points_of(recorder, place)
        sections = {
            program: 'SEC("tp")' if point.startswith(CALLS) else f'SEC("tp_btf/{point}")'
            for program, point in points
        }
        programs = [f"{at} int {name}(void *ctx) {{ return 0; }}" for name, at in sections.items()]
        (place / "floor.bpf.c").write_text(PROGRAMS + "\n".join(programs))
        pairs = ", ".join(f'{{ "{program}", "{point}" }}' for program, point in points)
        loader = LOADER.replace("POINTS", pairs).replace("OBJECT", f'"{place}/floor.o"')
        (place / "floor.c").write_text(loader)
        include = f"-idirafter/usr/include/{os.uname().machine}-linux-gnu"
        for command in (
            ["clang", "-O2", "-g", "-target", "bpf", include, "-c", "floor.bpf.c", "-o", "floor.o"],
            ["cc", "-O2", "floor.c", "-o", "floor", "-lbpf"],
        ):
            subprocess.run(command, cwd=place, check=True)
        yield place / "floor"


def points_of(recorder: Path, place: Path) -> list[tuple[str, str]]:
    """Each program that the recorder has attached to the kernel's points, and to which of them."""
    recording = Recording(recorder, place / "recording", os.getpid())
    attached = recording.attached()
    recording.end()
    tried = subprocess.run([str(recorder), "--probes"], cwd=ROOT, check=True, capture_output=True)
    rows = [line.split("\t") for line in tried.stdout.decode().splitlines()]
    return [
        (program, point)
        for program, points, *_ in rows
        if program in attached
        for point in points.split(",")
        if ":" not in point and (not point.startswith(CALLS) or exists(point))
    ]


def exists(point: str) -> bool:
    return Path(f"/sys/kernel/tracing/events/syscalls/{point}").is_dir()
