# SPDX-License-Identifier: Apache-2.0
"""Programs that people trust with their data: how each is run, and what it says of itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SECONDS: Final = 4
SOURCES: Final = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Account:
    """A program's own: how many synchronous writes, and how long they took, if it says.

    ``last_us``: the mean of the calls that synchronise; ``whole_us``: with those before.
    ``files``: of which files it speaks. ``spare``: how many more or less may be recorded, of
    its beginning and its end. ``late``: such a share of a mean may lie between the end of a call
    and its clock: four threads of two CPUs wait, a goroutine is put back first.
    """

    count: int
    last_us: float | None = None
    whole_us: float | None = None
    files: str = "**/*"
    spare: int = 0
    late: float = 0.1


@dataclass(frozen=True)
class Program:
    """``prepare`` and ``run`` are for the shell, in a directory of its own.

    Only ``run`` is recorded. ``account`` reads what that prints. ``requests``: all its requests
    of io_uring that transfer something are synchronous.
    """

    name: str
    needs: tuple[str, ...]
    run: str
    prepare: str = ""
    account: Callable[[str], Account] | None = None
    requests: bool = False


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text, re.MULTILINE)
    assert found, f"{pattern} is not in: {text}"
    return float(found[1])


POSTGRES_BIN: Final = "PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin | tail -1)\n"
AS_POSTGRES: Final = "setpriv --reuid=postgres --regid=postgres --clear-groups "
POSTGRES_START: Final = (
    f"{AS_POSTGRES} pg_ctl start -w -s -D data -l log -o \"-k $PWD -c listen_addresses=''"
    ' -c track_wal_io_timing=on -c wal_sync_method=%s"\n'
)


def _postgres(clients: int, method: str) -> Program:
    written = "wal_write" if method == "open_datasync" else "wal_sync"

    def account(said: str) -> Account:
        count, sum_ms = re.findall(r"^wal\|(\d+)\|([\d.]+)", said, re.MULTILINE)[0]
        mean_us = float(sum_ms) / int(count) * 1000
        return Account(int(count), mean_us, files="data/pg_wal/*", spare=5)

    return Program(
        f"postgresql-{method}-{clients}",
        ("pg_ctlcluster", "pgbench"),
        prepare=POSTGRES_BIN
        + "chown postgres .\n"
        + f"{AS_POSTGRES} initdb -D data -A trust >/dev/null\n"
        + POSTGRES_START % method
        + f"pgbench -h $PWD -U postgres -i -s 8 -q postgres\n{AS_POSTGRES} pg_ctl stop -s -D data",
        run=POSTGRES_BIN
        + POSTGRES_START % method
        + 'sql() { psql -h $PWD -U postgres -A -t -c "$1"; }\n'
        + "sql \"select pg_stat_reset_shared('wal')\"\n"
        + f"pgbench -h $PWD -U postgres -n -c {clients} -T {SECONDS} postgres\nsleep 1\n"
        + f"sql \"select 'wal', {written}, {written}_time from pg_stat_wal\"\n"
        + f"{AS_POSTGRES} pg_ctl stop -s -D data -m immediate",
        account=account,
    )


MARIADB_START: Final = """
mariadbd --no-defaults --user=root --datadir=$PWD/data --socket=$PWD/socket --skip-networking \\
    --innodb-flush-log-at-trx-commit=1 --log-error=$PWD/log &
until mariadb --no-defaults -S socket -e 'select 1' >/dev/null 2>&1; do sleep 0.1; done
bench() {
    sysbench oltp_write_only --db-driver=mysql --mysql-socket=$PWD/socket --mysql-user=root \\
        --mysql-db=test --tables=4 --table-size=5000 "$@"
}
"""
MARIADB: Final = Program(
    "mariadb-8",
    ("mariadbd", "sysbench"),
    prepare="mariadb-install-db --no-defaults --user=root --datadir=$PWD/data --skip-test-db"
    " --auth-root-authentication-method=normal >/dev/null\n"
    + MARIADB_START
    + "mariadb --no-defaults -S socket -e 'create database test'\n"
    "bench prepare\nmariadb --no-defaults -S socket -e shutdown; wait",
    run=MARIADB_START + f"bench --threads=8 --time={SECONDS} run\n"
    "mariadb --no-defaults -S socket -B -e \"show global status like 'Innodb%sync%'\"\n"
    "kill -KILL $!",
    account=lambda said: Account(int(_number(r"^Innodb_data_fsyncs\s+(\d+)", said)), spare=20),
)


def _sqlite(mode: str) -> Program:
    def account(said: str) -> Account:
        # With DELETE: the journal twice, the directory that holds it, the database. With WAL:
        # the log, and two of a checkpoint for each 1000 pages, of which an insert has two.
        inserted = int(_number(r"^inserted (\d+)", said))
        if mode == "DELETE":
            return Account(inserted * 4, spare=40)
        return Account(inserted + inserted // 250, spare=40)

    command = f"/usr/bin/python3 {SOURCES}/sqlite_inserts.py {SECONDS} {mode}"
    return Program(f"sqlite-{mode}", (), command, account=account)


REDIS: Final = Program(
    "redis",
    ("redis-benchmark",),
    run="ln -sf $(command -v redis-check-rdb) redis-server\n"
    "./redis-server --port 0 --unixsocket $PWD/socket --appendonly yes --appendfsync always"
    " --save '' >log &\n"
    "until redis-cli -s socket ping >/dev/null 2>&1; do sleep 0.1; done\n"
    "redis-benchmark -s socket -c 1 -n 5000 -t set -d 500 --csv\n"
    "redis-cli -s socket info commandstats\nkill -KILL $!",
    account=lambda said: Account(int(_number(r"^cmdstat_set:calls=(\d+)", said)), spare=10),
)


def _etcd_account(said: str) -> Account:
    name = "etcd_disk_wal_fsync_duration_seconds"
    count = int(_number(f"^{name}_count (\\d+)", said))
    mean_us = _number(f"^{name}_sum (.+)", said) / count * 1e6
    return Account(count, mean_us, files="data/member/wal/*", spare=5)


ETCD: Final = Program(
    "etcd",
    ("etcd",),
    # In a network of its own, so that its ports are free.
    run="unshare --net sh -c '\nip link set lo up\netcd --data-dir=data --log-level=error &\n"
    f"sleep 2\n/usr/bin/python3 {SOURCES}/etcd_puts.py {SECONDS} 2379\nkill -KILL $!'",
    account=_etcd_account,
)


def _rocksdb_account(said: str) -> Account:
    name = r"^rocksdb\.wal\.file\.sync\.micros .*"
    count = int(_number(rf"{name}COUNT : (\d+)", said))
    return Account(count, _number(rf"{name}SUM : (\d+)", said) / count, files="data/*.log", spare=2)


ROCKSDB: Final = Program(
    "rocksdb",
    ("db_bench",),
    run="db_bench --benchmarks=fillrandom --sync=1 --threads=4 --db=$PWD/data --num=1000000000"
    f" --duration={SECONDS} --statistics=1 2>&1",
    account=_rocksdb_account,
)


def _lmdb(mode: str) -> Program:
    def account(said: str) -> Account:
        return Account(int(_number(r"^committed (\d+)", said)) * 2, spare=5)

    command = f"/usr/bin/python3 {SOURCES}/lmdb_commits.py {SECONDS} {mode}"
    return Program(f"lmdb-{mode}", (), command, account=account)


# Each call is told to be durable, or one sync follows all of them.
DD: Final = Program(
    "dd",
    (),
    run="dd if=/dev/zero of=a bs=1M count=40 oflag=dsync\n"
    "dd if=/dev/zero of=b bs=4M count=10 oflag=direct,sync\n"
    "dd if=/dev/zero of=c bs=1M count=100 conv=fsync\n"
    "dd if=/dev/zero of=d bs=512 count=300 oflag=sync",
    account=lambda _: Account(40 + 10 + 1 + 300),
)

COPIES: Final = 300
RSYNC: Final = Program(
    "rsync",
    ("rsync",),
    prepare=f"mkdir from\nfor i in $(seq {COPIES}); do\n"
    "head -c $((i * 1000)) /dev/urandom >from/$i; done",
    run="rsync -a --fsync from/ to/",
    account=lambda _: Account(COPIES, files="to/*"),
)

GIT: Final = Program(
    "git",
    ("git",),
    run="git init -q repository\ncd repository\ngit config user.email a@b\n"
    "git config user.name a\ngit config core.fsync all\ngit config gc.auto 0\n"
    "for i in $(seq 60); do echo $i >file$i; git add file$i; git commit -q -m $i; done",
)


def _appended(said: str) -> Account:
    return Account(int(_number(r"^appended (\d+)", said)))


APPENDERS: Final = {
    "python": ("python3", "", f"python3 {SOURCES}/append.py"),
    "node": ("node", "", f"node {SOURCES}/append.mjs"),
    "go": ("go", f"GOFLAGS= go build -o appender {SOURCES}/append.go", "./appender"),
    "java": ("javac", f"javac -d . {SOURCES}/Append.java", "java -cp . Append"),
}


def _appenders() -> Iterator[Program]:
    for name, (tool, prepare, command) in APPENDERS.items():
        for kind, files in (("one", "a a a a"), ("each", "a b c d")):
            run = f"{command} {SECONDS} {files}"
            yield Program(f"{name}-{kind}", (tool,), run, prepare, _appended)


# fio submits the next ones, each by a call, before it looks again at what is complete.
REAPING: Final = 0.15


def _fio(name: str, *options: str) -> Program:
    base = "fio --name=w --rw=randwrite --bs=8k --size=32m --filename=data --group_reporting"
    timed = f" --time_based --runtime={SECONDS}"
    command = " ".join((base, *options))

    def account(said: str) -> Account:
        job = json.loads(said[said.index("{") :])["jobs"][0]
        write, sync = job["write"], job["sync"]["lat_ns"]
        if sync["N"]:
            return Account(sync["N"], whole_us=(write["clat_ns"]["mean"] + sync["mean"]) / 1e3)
        late = REAPING if "io_uring" in name else Account.late
        return Account(write["total_ios"], whole_us=write["lat_ns"]["mean"] / 1e3, late=late)

    return Program(
        f"fio-{name}",
        ("fio",),
        prepare=f"{command} --create_only=1",
        run=f"{command}{timed} --output-format=json",
        account=account,
        requests="io_uring" in name,
    )


FOUR: Final = ("--thread", "--numjobs=4")
PROGRAMS: Final = (
    *(
        _postgres(clients, method)
        for method in ("fdatasync", "open_datasync", "fsync")
        for clients in (1, 4, 16)
    ),
    MARIADB,
    _sqlite("DELETE"),
    _sqlite("WAL"),
    REDIS,
    ETCD,
    ROCKSDB,
    _lmdb("file"),
    _lmdb("writemap"),
    DD,
    RSYNC,
    GIT,
    *_appenders(),
    _fio("buffered", *FOUR, "--fdatasync=1"),
    _fio("direct", *FOUR, "--direct=1", "--fdatasync=1"),
    _fio("dsync", *FOUR, "--sync=dsync"),
    *(
        _fio(f"io_uring-{depth}", "--ioengine=io_uring", "--direct=1", "--sync=dsync",
             f"--iodepth={depth}")
        for depth in (1, 4, 16)
    ),
)  # fmt: skip
