//go:build go1.23

// What the generator of test vectors needs of this package and is not exported.

package memorymanager

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"pinfold.dev/generate/kubelet/cadvisor"
	"pinfold.dev/generate/kubelet/call"
)

// vectorsSorted iterates over a map in the order of its keys.
func vectorsSorted[M ~map[K]V, K cmp.Ordered, V any](m M) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if value, ok := m[key]; ok && !yield(key, value) {
				return
			}
		}
	}
}

// VectorsStatic is a static policy with the given reservation by NUMA node.
func VectorsStatic(machine *cadvisor.MachineInfo, reserved map[int]map[v1.ResourceName]uint64, affinity topologymanager.Store) (Policy, error) {
	results := call.Func(NewPolicyStatic, machine, systemReservedMemory(reserved), affinity)
	policy, _ := results[0].(Policy)
	return policy, call.Error(results)
}

// VectorsRequests is the memory that a container, or a whole pod, asks for.
func VectorsRequests(pod *v1.Pod, container *v1.Container) (map[v1.ResourceName]uint64, error) {
	var results []any
	if container == nil {
		results = call.Func(getPodRequestedResources, pod)
	} else {
		results = call.Func(vectorsContainerRequests, pod, container)
	}
	return results[0].(map[v1.ResourceName]uint64), call.Error(results)
}

// VectorsCleanUp releases what pods hold that are gone.
func VectorsCleanUp(m Manager) {
	if static, ok := m.(*manager); ok {
		call.Func(static.removeStaleState)
	}
}
