# A node of a cluster: containerd, the kubelet and the agent, and what the kernel lets every container use, again and
# again. The files are in /etc/node;
cd /
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
hostname "$(cat /etc/node/name)"
echo "127.0.0.1 localhost $(cat /etc/node/name)" >/etc/hosts
echo "root:x:0:0:root:/:/bin/sh" >/etc/passwd
echo "root:x:0:" >/etc/group
echo "0123456789abcdef0123456789abcdef" >/etc/machine-id
for controller in cpuset cpu pids memory io hugetlb; do
    echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
done
echo "controllers $(cat /sys/fs/cgroup/cgroup.subtree_control)"
mkdir -p /run/node /run/pinfold /var/lib/kubelet /var/lib/containerd /var/log/pods /var/log/containers /opt/cni
mkdir -p /var/lib/pinfold /etc/cni
containerd --config /etc/node/containerd.toml >/run/node/containerd.log 2>&1 &
until ctr --address /run/node/containerd.sock version >/dev/null 2>&1; do sleep 1; done
echo "@@ containerd $(cut -d' ' -f1 /proc/uptime)"
ctr --address /run/node/containerd.sock --namespace k8s.io images import --no-unpack /etc/node/image.tar
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
