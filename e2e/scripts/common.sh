# What every script uses. T is a folder for notes.
section() { echo "@@ section $1"; }
groups() { find /sys/fs/cgroup -maxdepth 4 -type d -name 'pinfold-[0-9]*' 2>/dev/null | wc -l; }
allowed() { grep -E '^(Cpus|Mems)_allowed_list' "/proc/$1/status"; }
# Waits until one of the files is there, for a minute at most.
wait_for() {
    for turn in $(seq 120); do
        for file in "$@"; do
            [ -e "$file" ] && return 0
        done
        sleep 0.5
    done
    echo "waited in vain for $*"
    return 1
}
# start NAME OPTIONS: a run that says where it is, takes memory and stays until stopped.
start() {
    name=$1
    shift
    rm -f "$T/$name".*
    mkfifo "$T/$name.go"
    (
        pinfold run "$@" -- sh "$T/probe.sh" "$name" >"$T/$name.out" 2>&1
        echo $? >"$T/$name.rc"
    ) &
    wait_for "$T/$name.ready" "$T/$name.rc"
}
# stop NAMES: ends runs that were started, and waits.
stop() {
    for name in "$@"; do
        [ -e "$T/$name.rc" ] || echo >"$T/$name.go"
    done
    for name in "$@"; do wait_for "$T/$name.rc"; done
    rm -f "$T"/*.data
}
# look PREFIX NAMES: what the kernel says about each run.
look() {
    prefix=$1
    shift
    for name in "$@"; do
        section "$prefix $name"
        if [ -e "$T/$name.ready" ] && [ ! -e "$T/$name.rc" ]; then
            pid=$(cat "$T/$name.pid")
            echo "pid $pid"
            allowed "$pid"
            group=$(grep '^0::' "/proc/$pid/cgroup" | cut -d: -f3)
            cat "/sys/fs/cgroup$group/memory.numa_stat" 2>/dev/null | grep -E '^(anon|file) '
            grep -E 'heap|anon=' "/proc/$pid/numa_maps" | sed 's/^[0-9a-f]* /maps /'
        else
            echo "rc $(cat "$T/$name.rc")"
            cat "$T/$name.out"
        fi
    done
}
cat >"$T/probe.sh" <<'PROBE'
# Notes its number, takes 1 MiB and more of memory, runs until it is stopped.
T=${0%/*}
echo $$ >"$T/$1.pid"
[ -n "$DATA" ] && dd if=/dev/zero of="$T/$1.data" bs=1M count="$DATA" 2>/dev/null
exec awk -v at="$T/$1" 'BEGIN {
    s = "0123456789abcdef"
    for (i = 0; i < 16; i++) s = s s
    printf "" >(at ".ready")
    close(at ".ready")
    getline line <(at ".go")
}'
PROBE
