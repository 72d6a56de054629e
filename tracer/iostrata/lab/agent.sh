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

for try in $(seq 100); do
	port=$(grep -l '^control$' /sys/class/virtio-ports/*/name 2>/dev/null)
	[ -z "$port" ] || break
	sleep 0.1
done
port=${port%/name}
exec 3<>"/dev/${port##*/}"
echo "lab: ready"

# Without anyone at the other end, a read ends at once.
while :; do
	read -r id seconds command <&3 || {
		sleep 0.2
		continue
	}
	printf '%s' "$command" | base64 -d >/run/command
	timeout -k 5 "$seconds" sh /run/command >/run/output 2>&1 </dev/null
	status=$?
	{
		printf '%s %s ' "$id" "$status"
		base64 -w0 /run/output
		echo
	} >&3
done
