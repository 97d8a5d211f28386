package main

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext/topologymanager"
	numa "github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/nodenumaresource"
	"github.com/koordinator-sh/koordinator/pkg/util/bitmask"
	"github.com/koordinator-sh/koordinator/pkg/util/cpuset"
)

// amounts are thousandths of CPUs, and whole units of everything else.
type amounts map[string]int64

func (a amounts) list() corev1.ResourceList {
	if a == nil {
		return nil
	}
	list := corev1.ResourceList{}
	for name, amount := range a {
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU:
			list[corev1.ResourceCPU] = *resource.NewMilliQuantity(amount, resource.DecimalSI)
		case corev1.ResourceMemory:
			list[corev1.ResourceMemory] = *resource.NewQuantity(amount, resource.BinarySI)
		default:
			list[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	return list
}

// amountsOf leaves out amounts of zero.
func amountsOf(list corev1.ResourceList) amounts {
	found := amounts{}
	for name, quantity := range list {
		amount := quantity.Value()
		if name == corev1.ResourceCPU {
			amount = quantity.MilliValue()
		}
		if amount != 0 {
			found[string(name)] = amount
		}
	}
	return found
}

// onNode are amounts on one NUMA node.
type onNode struct {
	Node      int     `json:"node"`
	Resources amounts `json:"resources"`
}

func byNode(parts []onNode) map[int]corev1.ResourceList {
	if parts == nil {
		return nil
	}
	found := map[int]corev1.ResourceList{}
	for _, part := range parts {
		found[part.Node] = part.Resources.list()
	}
	return found
}

func resourcesOf(parts []onNode) []numa.NUMANodeResource {
	found := []numa.NUMANodeResource{}
	for _, part := range parts {
		found = append(found, numa.NUMANodeResource{Node: part.Node, Resources: part.Resources.list()})
	}
	return found
}

func partsOf(resources []numa.NUMANodeResource) []onNode {
	parts := []onNode{}
	for _, found := range resources {
		parts = append(parts, onNode{found.Node, amountsOf(found.Resources)})
	}
	return parts
}

// topologyInput has a row for each CPU: the CPU, its core, NUMA node and socket.
type topologyInput struct {
	CPUs       [][4]int `json:"cpus"`
	NumCPUs    int      `json:"numCPUs"`
	NumCores   int      `json:"numCores"`
	NumNodes   int      `json:"numNodes"`
	NumSockets int      `json:"numSockets"`
}

func (t topologyInput) topology() *numa.CPUTopology {
	topology := &numa.CPUTopology{
		NumCPUs: t.NumCPUs, NumCores: t.NumCores, NumNodes: t.NumNodes, NumSockets: t.NumSockets,
		CPUDetails: numa.NewCPUDetails(),
	}
	for _, row := range t.CPUs {
		topology.CPUDetails[row[0]] = numa.CPUInfo{CPUID: row[0], CoreID: row[1], NodeID: row[2], SocketID: row[3]}
	}
	return topology
}

type hintInput struct {
	Affinity    []int `json:"affinity"`
	Preferred   bool  `json:"preferred"`
	Unsatisfied bool  `json:"unsatisfied"`
	Score       int64 `json:"score"`
}

func (h hintInput) hint() topologymanager.NUMATopologyHint {
	hint := topologymanager.NUMATopologyHint{Preferred: h.Preferred, Unsatisfied: h.Unsatisfied, Score: h.Score}
	if h.Affinity != nil {
		hint.NUMANodeAffinity = maskOf(h.Affinity)
	}
	return hint
}

func maskOf(nodes []int) bitmask.BitMask {
	mask, err := bitmask.NewBitMask(nodes...)
	if err != nil {
		panic(err)
	}
	return mask
}

func hintOf(hint topologymanager.NUMATopologyHint) hintInput {
	found := hintInput{Preferred: hint.Preferred, Unsatisfied: hint.Unsatisfied, Score: hint.Score}
	if hint.NUMANodeAffinity != nil {
		found.Affinity = append([]int{}, hint.NUMANodeAffinity.GetBits()...)
	}
	return found
}

func cpus(set cpuset.CPUSet) []int { return append([]int{}, set.ToSlice()...) }

func sorted[V any](table map[string]V) []string { return slices.Sorted(maps.Keys(table)) }
