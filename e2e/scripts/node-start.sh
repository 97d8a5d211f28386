# Makes a node of an emulated machine: network, control groups, containerd and the image of all pods. The files are in
# /etc/node.
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
