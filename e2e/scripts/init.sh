#!/bin/busybox sh
# The first program of a guest. Nobody can leave the root that a kernel unpacks at boot, and containers do exactly that
# with theirs: so everything goes on below a second mount of it.
cd /
busybox=/bin/busybox
$busybox mkdir /second
$busybox mount --bind / /second
cd /second
$busybox mount --move . /
exec $busybox chroot . $busybox sh /start
