# Without any control group there is still affinity.
umount /sys/fs/cgroup
start f --cpus 3 --memory 64Mi --policy single-numa-node
start g
section "affinity ps"
pinfold ps -o json
look affinity f g
stop f
section "affinity grown"
pinfold ps -o json
look "affinity grown" g
stop g
section "affinity after"
pinfold ps -o json
