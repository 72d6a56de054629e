#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the commands that come over the control port, one after the other.
#   request: ID SECONDS COMMAND    reply: ID STATUS OUTPUT    one line each, the last word base64

export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8

mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tracefs tracing /sys/kernel/tracing
mount -t debugfs debug /sys/kernel/debug
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t configfs config /sys/kernel/config 2>/dev/null
ip link set lo up

mkdir -p /run/ports
for try in $(seq 100); do
	for name in /sys/class/virtio-ports/*/name; do
		port=${name%/name}
		[ -e "$name" ] && ln -sf "/dev/${port##*/}" "/run/ports/$(cat "$name")"
	done
	[ -e /run/ports/control ] && break
	sleep 0.1
done
mkdir -p /run/disks
for serial in /sys/block/vd*/serial; do
	[ -e "$serial" ] || continue
	disk=${serial%/serial}
	ln -sf "/dev/${disk##*/}" "/run/disks/$(cat "$serial")"
done
exec 3<>/run/ports/control
echo "lab: ready"

while read -r id seconds command <&3; do
	printf '%s' "$command" | base64 -d >/run/command
	timeout -k 5 "$seconds" sh /run/command >/run/output 2>&1 </dev/null 3>&-
	status=$?
	{
		printf '%s %s ' "$id" "$status"
		base64 -w0 /run/output
		echo
	} >&3
done
