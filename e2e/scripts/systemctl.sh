#!/bin/sh
# What the suite and the pages need of systemctl, for machines without systemd. A unit is a script in /etc/units that
# becomes its main process; UNIT.ready, if it is there, waits until the unit has started.
running() { [ -r /run/units/$1.pid ] && [ -d /proc/$(cat /run/units/$1.pid)/fd ] && [ -n "$(ls /proc/$(cat /run/units/$1.pid)/fd)" ]; }
start() {
    running $1 && return 0
    [ -r /etc/units/$1 ] || { echo "Unit $1.service not found." >&2; return 5; }
    setsid sh /etc/units/$1 </dev/null >>/var/log/$1.log 2>&1 &
    echo $! >/run/units/$1.pid
    [ ! -r /etc/units/$1.ready ] || sh /etc/units/$1.ready
}
stop() {
    running $1 || return 0
    kill $(cat /run/units/$1.pid)
    for turn in $(seq 300); do
        running $1 || return 0
        sleep 0.2
    done
    kill -KILL $(cat /run/units/$1.pid)
}
command=$1
shift
signal=TERM
units=
for word in "$@"; do
    case $word in
    --signal=*) signal=${word#--signal=} ;;
    -*) ;;
    *) units="$units ${word%.service}" ;;
    esac
done
for unit in $units; do
    case $command in
    start | enable) start $unit ;;
    stop | disable) stop $unit ;;
    restart) stop $unit && start $unit ;;
    reload) kill -HUP $(cat /run/units/$unit.pid) ;;
    kill) kill -$signal $(cat /run/units/$unit.pid) ;;
    status | is-active)
        running $unit && echo "$unit.service: active (running)" || { echo "$unit.service: inactive"; exit 3; }
        ;;
    *)
        echo "systemctl: unknown command $command" >&2
        exit 1
        ;;
    esac || exit $?
done
