# Follows node-start.sh: runs the kubelet and the agent, and prints what the kernel lets every container use, again and
# again.
pinfold-agent --config /etc/node/agent.yaml >/run/node/agent.log 2>&1 &
kubelet --config=/etc/node/kubelet.yaml --kubeconfig=/etc/node/kubeconfig --hostname-override="$(cat /etc/node/name)" \
    --node-ip=10.0.2.15 --v=2 >/run/node/kubelet.log 2>&1 &
echo "@@ started $(cut -d' ' -f1 /proc/uptime)"
shown=
while :; do
    for log in containerd kubelet agent; do
        grep -E "^E|level=(error|fatal)|error:|[Ff]atal|panic|warn" /run/node/$log.log 2>/dev/null | tail -3 | cut -c1-400
    done >/run/node/problems
    problems=$(cat /run/node/problems)
    [ "$problems" != "$shown" ] && echo "$problems" | sed 's/^/problem: /'
    shown=$problems
    find /sys/fs/cgroup/kubepods -name cgroup.procs 2>/dev/null | while read -r file; do
        group=${file%/cgroup.procs}
        read -r process <"$file" || continue
        echo "group ${group#/sys/fs/cgroup/} $(cat "$group/cpuset.cpus.effective") $(cat "$group/cpuset.mems.effective")"
    done
    [ -S /run/pinfold/pod-resources.sock ] && e2e pod-resources /run/pinfold/pod-resources.sock
    echo "round"
    sleep 3
done
