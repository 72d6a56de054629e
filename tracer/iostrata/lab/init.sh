#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# Process 1 of a lab machine: its root is an image if it has one, else the root of the machine
# that runs QEMU; read-only, under a layer in memory. Then the agent takes over.

alias b=/bin/busybox

fail() {
	echo "lab: $*"
	b poweroff -f
}

b mount -t proc proc /proc
b mount -t sysfs sys /sys
b mount -t devtmpfs dev /dev
while read -r module parameters; do
	# shellcheck disable=SC2086 # they are several words
	b insmod "/modules/$module" $parameters || echo "lab: module $module cannot be loaded"
done </modules/order

share=trans=virtio,version=9p2000.L,msize=262144
image=$(b grep -lx root /sys/block/vd*/serial 2>/dev/null)
if [ "$image" ]; then
	image=${image#/sys/block/}
	b mount -t ext4 -o ro "/dev/${image%/serial}" /lower || fail "no root"
else
	b mount -t 9p -o "$share,ro,cache=loose" root /lower || fail "no root"
fi
lower=/lower
if b grep -q packages /sys/bus/virtio/drivers/9pnet_virtio/*/mount_tag; then
	b mount -t 9p -o "$share,ro,cache=loose" packages /packages || fail "no packages"
	lower=/packages:/lower
fi
b mount -t tmpfs upper /upper
b mkdir /upper/files /upper/work
b mount -t overlay -o lowerdir=$lower,upperdir=/upper/files,workdir=/upper/work root /root ||
	fail "no writable root"

b mkdir -p /root/lib/modules /root/lab
[ "$image" ] || b mount -t 9p -o "$share,ro,cache=loose" modules /root/lib/modules ||
	fail "no modules"
b mount -t 9p -o "$share,cache=none" exchange /root/lab || fail "no way to exchange files"
for place in proc sys dev; do
	b mount --move "/$place" "/root/$place"
done
b mount -t tmpfs run /root/run
b mount -t tmpfs tmp /root/tmp
b cp /agent /root/run/agent
exec /bin/busybox switch_root /root /bin/sh /run/agent
