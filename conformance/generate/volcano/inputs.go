package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/utils/cpuset"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/numaaware/policy"
)

type answer map[string]any

// rows have the CPU, its core, NUMA node and socket.
type rows [][4]int

func (r rows) details() topology.CPUDetails {
	details := topology.CPUDetails{}
	for _, row := range r {
		details[row[0]] = topology.CPUInfo{CoreID: row[1], NUMANodeID: row[2], SocketID: row[3]}
	}
	return details
}

// quantities are amounts as text.
type quantities map[string]string

func (q quantities) list() v1.ResourceList {
	list := v1.ResourceList{}
	for name, text := range q {
		list[v1.ResourceName(name)] = resource.MustParse(text)
	}
	return list
}

// sets are CPUs by resource.
type sets map[string][]int

func (s sets) sets() api.ResNumaSets {
	found := api.ResNumaSets{}
	for name, cpus := range s {
		found[name] = cpuset.New(cpus...)
	}
	return found
}

func cpus(set cpuset.CPUSet) []int { return append([]int{}, set.List()...) }

func setsOf(found map[string]cpuset.CPUSet) sets {
	all := sets{}
	for name, set := range found {
		all[name] = cpus(set)
	}
	return all
}

type hintInput struct {
	Affinity  []int `json:"affinity"`
	Preferred bool  `json:"preferred"`
}

func (h hintInput) hint() policy.TopologyHint {
	hint := policy.TopologyHint{Preferred: h.Preferred}
	if h.Affinity != nil {
		mask, err := bitmask.NewBitMask(h.Affinity...)
		if err != nil {
			panic(err)
		}
		hint.NUMANodeAffinity = mask
	}
	return hint
}

func hintOf(hint policy.TopologyHint) hintInput {
	found := hintInput{Preferred: hint.Preferred}
	if hint.NUMANodeAffinity != nil {
		found.Affinity = append([]int{}, hint.NUMANodeAffinity.GetBits()...)
	}
	return found
}

func container(name string, requests quantities) *v1.Container {
	return &v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: requests.list()}}
}
