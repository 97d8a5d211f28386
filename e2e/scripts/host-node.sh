# A node on this machine, in namespaces of its own: empty folders for the kubelet, the runtime and Pinfold, and a network
# that leads to pods and the API server alone. Runs a command there:  host-node.sh GROUP COMMAND...
set -eu
group=$1
shift
for folder in /run /var/lib /var/log /etc/cni; do
    mkdir -p "$folder"
    mount -t tmpfs -o mode=0755 tmpfs "$folder"
done
mkdir -p /run/containerd /run/dbus /var/lib/kubelet /var/lib/containerd /var/log/pods /var/log/containers /etc/cni/net.d
# Containers see mounts that the kubelet makes.
mount --make-rshared /
hostname node-1
echo "127.0.0.1 localhost
10.98.0.1 node-1" >/run/hosts
mount --bind /run/hosts /etc/hosts
ip link set lo up
# The Service of the API server: it listens there itself.
ip address add 10.96.0.1/32 dev lo
ip link add node0 type bridge
ip address add 10.98.0.1/24 dev node0
ip link set node0 up
ip route add default via 10.98.0.1 dev node0
cat >/etc/cni/net.d/10-pods.conflist <<'END'
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.97.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
# The control group of all pods, with every CPU and NUMA node.
for root in /sys/fs/cgroup/*/; do
    [ -e "$root/tasks" ] || continue
    mkdir -p "$root/$group"
    [ ! -e "$root/cpuset.cpus" ] || {
        cat "$root/cpuset.cpus" >"$root/$group/cpuset.cpus"
        cat "$root/cpuset.mems" >"$root/$group/cpuset.mems"
    }
done
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mkdir -p "/sys/fs/cgroup/$group"
    for controller in cpuset cpu memory pids io hugetlb; do
        echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
        echo "+$controller" >"/sys/fs/cgroup/$group/cgroup.subtree_control" 2>/dev/null || true
    done
fi
# bash stays the first process, which collects what ends without a parent.
"$@" &
wait $!
