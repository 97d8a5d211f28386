#!/bin/busybox sh
# The first program of a guest. pivot_root does not work on the root that a kernel unpacks at boot, and containers need
# it: everything runs below a second mount of it.
cd /
busybox=/bin/busybox
$busybox mkdir /second
$busybox mount --bind / /second
cd /second
$busybox mount --move . /
exec $busybox chroot . $busybox sh /start
