package main

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
	"pinfold.dev/generate/kubelet/cadvisor"
	"pinfold.dev/generate/kubelet/call"
	"pinfold.dev/generate/record"
)

// operations are what is measured beside our benchmark, on the inputs that the names of its rows describe.
func (w *world) operations() map[string]func([]string) (record.Operation, error) {
	return map[string]func([]string) (record.Operation, error){
		"merge": benchMerge, "hints": benchHints, "picking": benchPicking, "admission": w.benchAdmission,
	}
}

// number is the number that a field begins with.
func number(field string) int {
	text, _, _ := strings.Cut(field, " ")
	found, err := strconv.Atoi(text)
	check(err)
	return found
}

// benchMachine has two threads per core, the first threads of all cores in NUMA node order, then the second threads; two
// sockets and 64 GiB on each NUMA node.
func benchMachine(nodes, cpus, caches int) *machine {
	cores := cpus / 2 / nodes
	sockets := min(nodes, 2)
	m := &machine{NumCPUs: cpus, NumSockets: sockets}
	for node := range nodes {
		made := numaNode{ID: node, Memory: 64 << 30}
		for other := range nodes {
			made.Distances = append(made.Distances, uint64(distance(node, other)))
		}
		for at := range cores {
			id := node*cores + at
			cache := node*caches + at*caches/cores
			made.Cores = append(made.Cores, core{Core: id, Socket: node * sockets / nodes, Uncore: &cache, Threads: []int{id, cores*nodes + id}})
		}
		m.Nodes = append(m.Nodes, made)
	}
	return m
}

func distance(from, to int) int {
	switch {
	case from == to:
		return 10
	case from/2 == to/2:
		return 12
	}
	return 32
}

// benchMerge merges hints on every set of NUMA nodes, of which single ones are preferred: "2 nodes, cpu+memory,
// restricted, closest".
func benchMerge(fields []string) (record.Operation, error) {
	nodes, closest := number(fields[0]), len(fields) == 4
	machineNodes := []cadvisor.Node{}
	all := []int{}
	for node := range nodes {
		made := cadvisor.Node{Id: node}
		for other := range nodes {
			made.Distances = append(made.Distances, uint64(distance(node, other)))
		}
		machineNodes, all = append(machineNodes, made), append(all, node)
	}
	options := topologymanager.PolicyOptions{PreferClosestNUMA: closest}
	info, err := topologymanager.NewNUMAInfo(machineNodes, options)
	if err != nil {
		return record.Operation{}, err
	}
	hints := everyHint(all)
	devices, cpus, memory := map[string][]topologymanager.TopologyHint{}, map[string][]topologymanager.TopologyHint{}, map[string][]topologymanager.TopologyHint{}
	total := uint64(1)
	for _, name := range strings.Split(fields[1], "+") {
		switch name {
		case "cpu":
			cpus[name] = hints
		case "memory", "hugepages":
			memory[name] = hints
		case "1dev":
			devices["a"] = hints
		case "2dev":
			devices["a"], devices["b"] = hints, hints
			total *= uint64(len(hints))
		}
		total *= uint64(len(hints))
	}
	providers := []map[string][]topologymanager.TopologyHint{devices, cpus, memory}
	policy := topologyPolicy(fields[2], info, options)
	var merge func() (topologymanager.TopologyHint, bool)
	switch policy := any(policy).(type) {
	case interface {
		Merge([]map[string][]topologymanager.TopologyHint) (topologymanager.TopologyHint, bool)
	}:
		merge = func() (topologymanager.TopologyHint, bool) { return policy.Merge(providers) }
	default:
		merge = func() (topologymanager.TopologyHint, bool) {
			results := call.Method(policy, "Merge", providers)
			return results[0].(topologymanager.TopologyHint), results[1].(bool)
		}
	}
	return record.Operation{Total: total, Run: func() {
		best, admit := merge()
		if !admit || !best.Preferred || best.NUMANodeAffinity.Count() != 1 {
			panic(fmt.Sprintf("merged %v", best))
		}
	}}, nil
}

// everyHint is a hint on every set of nodes, as the managers list them.
func everyHint(nodes []int) []topologymanager.TopologyHint {
	var hints []topologymanager.TopologyHint
	for width := 1; width <= len(nodes); width++ {
		for mask := uint64(1); mask < 1<<len(nodes); mask++ {
			bits := []int{}
			for _, node := range nodes {
				if mask>>node&1 == 1 {
					bits = append(bits, node)
				}
			}
			if len(bits) == width {
				made, err := hint{&bits, width == 1}.real()
				check(err)
				hints = append(hints, made)
			}
		}
	}
	return hints
}

// guaranteed is a pod of one container.
func guaranteed(uid string, amounts map[string]string) *v1.Pod {
	made := pod{UID: uid, Containers: []container{{Name: "main", Requests: amounts, Limits: amounts}}}
	object, err := made.object()
	check(err)
	return object
}

// benchHints asks for the hints of a container of 8 CPUs: "hints, 8 nodes, 512 CPUs".
func benchHints(fields []string) (record.Operation, error) {
	m := benchMachine(number(fields[1]), number(fields[2]), 2)
	policy, err := staticPolicy(m, &cpuHintsInput{NumReserved: 2, TopologyPolicy: "best-effort"})
	if err != nil {
		return record.Operation{}, err
	}
	cpus := call.Func(state.NewMemoryState)[0].(state.State)
	cpus.SetDefaultCPUSet(cpuset.New(m.cpus()...))
	object := guaranteed("pod", map[string]string{"cpu": "8", "memory": "1Gi"})
	return record.Operation{Run: func() {
		call.Method(policy, "GetTopologyHints", cpus, object, &object.Spec.Containers[0])
	}}, nil
}

// benchPicking picks CPUs on four NUMA nodes: "8 of 128 CPUs, fragmented, packed, uncore-aligned".
func benchPicking(fields []string) (record.Operation, error) {
	words := strings.Fields(fields[0])
	count, cpus := number(words[0]), number(words[2])
	topo, err := benchMachine(4, cpus, 2).topology()
	if err != nil {
		return record.Operation{}, err
	}
	available := []int{}
	for cpu := range cpus {
		if fields[1] == "idle" || (cpu*7919+13)%10 >= 4 {
			available = append(available, cpu)
		}
	}
	free := cpuset.New(available...)
	return record.Operation{Run: func() {
		taken, err := cpumanager.VectorsTake(fields[2] == "distributed", topo, free, count, 1, "packed", len(fields) == 4, false)
		if err != nil || taken.Size() != count {
			panic(fmt.Sprintf("picked %v, %v", taken, err))
		}
	}}, nil
}

// benchAdmission admits a pod while the one before it has just gone: "8 nodes, restricted, scope pod".
func (w *world) benchAdmission(fields []string) (record.Operation, error) {
	nodes := number(fields[0])
	m := benchMachine(nodes, 128, 1)
	devices := deviceResource{Name: "example.com/device", Preferred: "none"}
	for at := range 8 {
		devices.Devices = append(devices.Devices, device{ID: fmt.Sprintf("g%d", at), NUMA: &[]int64{int64(at % nodes)}, Healthy: true})
	}
	dir, err := os.MkdirTemp(w.scratch, "bench")
	if err != nil {
		return record.Operation{}, err
	}
	n := &node{machine: m, dir: dir, scenario: &scenario{
		TopologyPolicy: fields[1], TopologyScope: strings.TrimPrefix(fields[2], "scope "), CPUPolicy: "static", ReservedCPU: "2",
		MemoryPolicy: "Static", ReservedMemory: []reservation{{NUMA: 0, Limits: map[string]string{"memory": "1Gi"}}},
		Devices: []deviceResource{devices},
	}}
	if err := n.open(); err != nil {
		return record.Operation{}, err
	}
	amounts := map[string]string{"cpu": "4", "memory": "1Gi", "example.com/device": "1"}
	pods := []*v1.Pod{guaranteed("a", amounts), guaranteed("b", amounts)}
	turn := 0
	total := uint64(1)
	for range 3 {
		total *= 1<<nodes - 1
	}
	return record.Operation{Total: total, Run: func() {
		turn++
		object := pods[turn%2]
		n.active = []*v1.Pod{object}
		attributes := &lifecycle.PodAdmitAttributes{Pod: object, OtherPods: n.pods()}
		if operation := reflect.ValueOf(attributes).Elem().FieldByName("Operation"); operation.IsValid() {
			operation.SetString("add")
		}
		answer := call.Method(n.topology, "Admit", attributes)[0].(lifecycle.PodAdmitResult)
		if !answer.Admit {
			panic(answer.Message)
		}
	}}, nil
}
