# A partition keeps every other process of the machine off its CPUs.
sleep 1000 &
bystander=$!
start x --cpus 4 --exclusive
start y --cpus 2
section "partition ps"
pinfold ps -o json
look partition x y
section "partition bystander"
echo "pid $bystander"
allowed $bystander
section "partition root"
cat /sys/fs/cgroup/cpuset.cpus.effective
stop x y
section "partition gone root"
cat /sys/fs/cgroup/cpuset.cpus.effective
kill $bystander
