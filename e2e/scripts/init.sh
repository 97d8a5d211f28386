#!/bin/busybox sh
# The first program of a guest: mounts what every system has, runs the script, and shows on the second serial line that
# the machine still goes, and where every process is.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ TERM=dumb
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
while :; do
    echo "pulse at $(cut -d' ' -f1 /proc/uptime)"
    for process in /proc/[0-9]*; do
        name=$(tr '\0' ' ' <$process/cmdline 2>/dev/null)
        [ -n "$name" ] && echo "${process#/proc/} in $(cat $process/wchan 2>/dev/null): $name"
    done
    sleep 15
done >/dev/ttyS1 2>/dev/null &
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
sh /script 2>&1
echo '@@ end'
poweroff -f
