# Starters and commands that are killed. OWN is how many CPUs each gets, ALL is how many can be had.
held() {
    rm -f "$T/held.pid"
    pinfold run --cpus "$OWN" -- sh -c "echo \$\$ >$T/held.tmp; mv $T/held.tmp $T/held.pid; exec sleep 1000" &
    parent=$!
    wait_for "$T/held.pid"
    child=$(cat "$T/held.pid")
}
state() {
    section "$1 groups"
    groups
    section "$1 ps"
    pinfold ps -o json
}
held
kill -9 $parent
wait $parent 2>/dev/null
state "starter killed"
section "starter killed child"
echo "pid $child"
allowed $child
kill -9 $child
sleep 0.5
section "then command killed ps"
pinfold ps -o json
section "then command killed groups"
groups

held
kill -9 $child
wait $parent 2>/dev/null
rc=$?
section "command killed rc"
echo $rc
state "command killed"

held
kill -9 $parent $child
wait $parent 2>/dev/null
sleep 0.5
section "both killed ps"
pinfold ps -o json
section "both killed groups"
groups

held
kill -TERM $parent
wait $parent 2>/dev/null
rc=$?
section "terminated rc"
echo $rc
held
kill -USR1 $parent
wait $parent 2>/dev/null
rc=$?
section "other signal rc"
echo $rc

pinfold run --cpus "$OWN" -- sh -c "echo \$\$ >$T/left.pid; sleep 1000 & echo \$! >$T/left.pid"
rc=$?
section "left behind rc"
echo $rc
state "left behind"
kill -9 "$(cat "$T/left.pid")"
sleep 0.5
section "left behind and killed ps"
pinfold ps -o json

for delay in 0 0.01 0.02 0.03 0.05 0.08 0.12 0.16 0.2 0.25 0.3 0.4; do
    pinfold run --cpus "$OWN" -- sleep 0.1 >/dev/null 2>&1 &
    parent=$!
    sleep $delay
    kill -9 $parent 2>/dev/null
    wait $parent 2>/dev/null
    sleep 0.2
done
sleep 2
section "killed while starting ps"
pinfold ps -o json
section "killed while starting groups"
groups

book=/run/pinfold/runs.json
[ "$(id -u)" = 0 ] || book=$XDG_RUNTIME_DIR/pinfold/runs.json
cp "$book" "$T/book"
head -c 40 "$book" >"$T/damaged"
cp "$T/damaged" "$book"
section "damaged message"
pinfold run -- true 2>&1
section "damaged rc"
pinfold run -- true 2>/dev/null
echo $?
section "damaged book"
cmp "$T/damaged" "$book" && echo same
cp "$T/book" "$book"

section "all again rc"
pinfold run --cpus "$ALL" -- true
echo $?
section "too many rc"
pinfold run --cpus $((ALL + 1)) -- true >/dev/null 2>&1
echo $?
section "exit code rc"
pinfold run -- sh -c 'exit 42'
echo $?
section "no such command rc"
pinfold run -- /no/such/command 2>/dev/null
echo $?
