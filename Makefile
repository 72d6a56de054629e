# SPDX-License-Identifier: Apache-2.0
#
#   make demo    record a benchmark of synchronous writes here and print its table
#   make test    every test and linter
#   make fuzz    recordings with something wrong in them, FUZZ_SECONDS long; where atheris is
#                installed, as long again those that it is led to by what they reach
#   make bench   what recording and analysing cost; AGAINST=COMMIT: beside that one's recorder
#   make bench-lab  the same of clients and servers of NFS and hosts of guests, and of other tools
#                beside it, in virtual machines (long)
#   make man     the manual page anew, docs/iostrata.1
#   make dist    all that is given away, in dist/, each installed and tried, as root (long)
#   make lock    the versions of packaging/requirements*.txt anew; UPGRADE=--upgrade: the newest
#   make schema  the JSON Schemas anew, docs/schema
#   make docs    the page of the layers anew, docs/layers.md
#   make native-arm64  the recorder for another type of CPU, bpf/build/arm64/iostrata-record
#   make test-lab  every scenario, on virtual machines of every kernel (long)
#   make test-kernels  what becomes of each program on each kernel, and its tables (long)
#   make test-oracles   blktrace and others beside it, on virtual machines (long)
#   make test-databases  real databases recorded here, as root (installs them: some GB)
#   make test-distributions  both commands of the README on fresh systems, as root (long)
#
# Each does all of its own set-up; .stamps/ remembers what is done.

PYTHON ?= python3
VENV := .venv
FUZZ_SECONDS ?= 600
BIN := $(VENV)/bin

BUILD_PACKAGES := python3-venv clang llvm bpftool libbpf-dev libelf-dev libzstd-dev \
	zlib1g-dev make gcc pkgconf
# What is here to build for another type of CPU, and what it is built against, which is unpacked.
CROSS_PACKAGES := $(BUILD_PACKAGES) lld
CROSS_LIBRARIES = libbpf-dev libc6-dev libelf-dev libgcc-$(shell gcc -dumpversion)-dev libzstd-dev \
	zlib1g-dev
TEST_PACKAGES := $(BUILD_PACKAGES) bpftrace babeltrace2 btrfs-progs chromium clang-tidy \
	dmsetup e2fsprogs fio git groff-base openssh-client openssh-server procps strace \
	util-linux xfsprogs
LAB_PACKAGES := $(TEST_PACKAGES) busybox-static cpio iproute2 kmod nfs-common \
	nfs-kernel-server qemu-system-x86
# Machines of each architecture, and what their recorders are built by.
KERNEL_PACKAGES := $(LAB_PACKAGES) $(CROSS_PACKAGES) qemu-system-arm
DATABASE_PACKAGES := $(TEST_PACKAGES) default-jdk-headless etcd-server golang-go iproute2 \
	mariadb-client-core mariadb-server-core nodejs postgresql python3-lmdb redis-tools \
	rocksdb-tools rsync sysbench
DISTRIBUTION_PACKAGES := $(BUILD_PACKAGES) debian-archive-keyring debootstrap git
DIST_PACKAGES := $(DISTRIBUTION_PACKAGES) podman rpm runc util-linux

# Tests begin the program thousands of times: compiled once.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: all demo test test-lab test-kernels fuzz test-databases test-distributions bench bench-lab dist lock man docs schema lint native native-arm64 install clean
all: install

demo: install
	.ci/demo

# What records on this kernel waits most of the time, for that kernel, and so do the machines that it
# boots, one after the other.  All else has only the CPU time that they leave.
RECORDING := tests/root
BOOTING := tests/lab/test_whole_path.py
REST := .stamps/rest.log

test: .stamps/lab-packages .stamps/python-dev native
	chrt --idle 0 $(BIN)/python -m pytest --numprocesses 2 \
		$(patsubst %,--ignore=%,$(RECORDING) $(BOOTING)) >$(REST) 2>&1 & rest=$$!; \
	trap 'kill $$rest 2>/dev/null' EXIT; \
	$(BIN)/python -m pytest $(RECORDING); status=$$?; \
	$(BIN)/python -m pytest $(BOOTING) || status=$$?; \
	wait $$rest || status=$$?; cat $(REST); exit $$status

test-lab: .stamps/kernel-packages .stamps/python-dev native native-arm64
	$(BIN)/python -m pytest -m lab tests/lab

test-kernels: .stamps/kernel-packages .stamps/python-dev native native-arm64
	$(BIN)/python -m pytest -m kernels tests/kernels

test-oracles: .stamps/lab-packages .stamps/python-dev native
	$(BIN)/python -m pytest -m lab tests/lab/test_oracles.py tests/lab/test_tools.py tests/lab/test_counters.py tests/lab/test_nvmet.py tests/lab/test_ring.py tests/lab/test_guests.py

test-databases: .stamps/database-packages .stamps/python-dev native
	$(BIN)/python -m pytest -m databases tests/databases

test-distributions: .stamps/distribution-packages .stamps/python-dev
	$(BIN)/python -m pytest -m distributions tests/distributions

dist: .stamps/dist-packages .stamps/python-dev .stamps/python-dist native \
		$(if $(filter x86_64,$(shell uname -m)),native-arm64)
	$(MAKE) -C packaging clean
	$(MAKE) -C packaging
	$(BIN)/python -m pytest -m dist tests/packaging

lock: .stamps/python-dist
	$(MAKE) -C packaging lock

SEPARATE := %/recorders.py %/writes.py %/machines.py %/tools.py

bench: .stamps/test-packages .stamps/python-dev native
	set -e; for script in $(filter-out $(SEPARATE),$(wildcard tests/benchmarks/*.py)); do \
		$(BIN)/python -m "tests.benchmarks.$$(basename "$$script" .py)"; done
	$(BIN)/python -m tests.benchmarks.recorders $(AGAINST)
	$(BIN)/python -m tests.benchmarks.writes $(AGAINST)

bench-lab: .stamps/lab-packages .stamps/python-dev native
	$(BIN)/python -m tests.benchmarks.machines $(AGAINST)
	$(BIN)/python -m tests.benchmarks.tools

fuzz: .stamps/test-packages .stamps/python-dev
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)
	! $(BIN)/python -c "import atheris" 2>/dev/null || \
		$(BIN)/python -m tests.fuzz.guided -max_total_time=$(FUZZ_SECONDS)

man: .stamps/python
	$(BIN)/python -m iostrata.cli.man > docs/iostrata.1

docs: .stamps/python
	$(BIN)/python -m iostrata.layers.page > docs/layers.md

schema: .stamps/python
	$(BIN)/python -m iostrata.cli.schemas docs/schema

lint: .stamps/test-packages .stamps/python-dev
	$(BIN)/python -m pytest tests/test_style.py tests/test_tidy.py

install: .stamps/python native

# As many compilers at once as there are CPUs, where nobody said how many.
BUILD = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,--jobs=$(shell nproc))

native: .stamps/build-packages
	$(BUILD) -C bpf
	$(BUILD) -C tracer/native

native-arm64: .stamps/sysroot-arm64
	$(BUILD) -C bpf ARCH=arm64
	$(BUILD) -C tracer/native ARCH=arm64

.stamps/sysroot-arm64: Makefile | .stamps/cross-packages .stamps/python
	$(BIN)/python -m iostrata.lab.sysroot arm64 $@ $(CROSS_LIBRARIES)
	@touch $@

.stamps/build-packages: PACKAGES = $(BUILD_PACKAGES)
.stamps/test-packages: PACKAGES = $(TEST_PACKAGES)
.stamps/cross-packages: PACKAGES = $(CROSS_PACKAGES)
.stamps/lab-packages: PACKAGES = $(LAB_PACKAGES)
.stamps/kernel-packages: PACKAGES = $(KERNEL_PACKAGES)
.stamps/database-packages: PACKAGES = $(DATABASE_PACKAGES)
.stamps/distribution-packages: PACKAGES = $(DISTRIBUTION_PACKAGES)
.stamps/dist-packages: PACKAGES = $(DIST_PACKAGES)
.stamps/%-packages: Makefile .ci/packages
	@mkdir -p .stamps
	.ci/packages $(PACKAGES)
	@touch $@

.stamps/venv: .stamps/build-packages
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@touch $@

# The versions that were tested together, and no other bytes.
LOCKED := $(BIN)/python -m pip install --quiet --require-hashes --requirement

.stamps/python: .stamps/venv pyproject.toml packaging/requirements.txt
	$(LOCKED) packaging/requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

.stamps/python-dev .stamps/python-dist: .stamps/python-%: .stamps/python packaging/requirements-%.txt
	$(LOCKED) packaging/requirements-$*.txt
	@touch $@

clean:
	rm -rf .stamps $(VENV)
	$(MAKE) --no-print-directory -C packaging clean
	$(MAKE) --no-print-directory -C bpf clean
	$(MAKE) --no-print-directory -C tracer/native clean
