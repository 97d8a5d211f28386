//go:build go1.23

// What the generator of test vectors needs of this package and is not exported.

package cpumanager

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/utils/cpuset"
	"pinfold.dev/generate/kubelet/call"
)

// VectorsEndless is the panic of a loop that would never end.
const VectorsEndless = "the kubelet never returns"

// vectorsPass is called at the start of every pass of a loop that hands out CPUs: each pass must hand out some.
func vectorsPass(passes int) {
	if passes > 1<<12 {
		panic(VectorsEndless)
	}
}

// VectorsTake calls the algorithm that chooses CPUs.
func VectorsTake(distributed bool, topo *topology.CPUTopology, available cpuset.CPUSet, count, group int, sorting string, byCache, bySocket bool) (cpuset.CPUSet, error) {
	var results []any
	if distributed {
		results = call.Func(takeByTopologyNUMADistributed, topo, available, count, group, call.Since{Value: sorting}, call.Since{Value: bySocket})
	} else {
		results = call.Func(takeByTopologyNUMAPacked, topo, available, count, call.Since{Value: sorting}, call.Since{Value: byCache})
	}
	return results[0].(cpuset.CPUSet), call.Error(results)
}

// VectorsReserved are the reserved CPUs of a static policy, and these with their siblings.
func VectorsReserved(policy Policy) (cpuset.CPUSet, cpuset.CPUSet) {
	static := policy.(*staticPolicy)
	return static.reservedCPUs, static.reservedPhysicalCPUs
}

// VectorsReusable returns the CPUs that init containers of a pod left.
func VectorsReusable(policy Policy, pod string) cpuset.CPUSet {
	return policy.(*staticPolicy).cpusToReuse[pod]
}

// VectorsSetReusable sets them.
func VectorsSetReusable(policy Policy, pod string, cpus cpuset.CPUSet) {
	policy.(*staticPolicy).cpusToReuse[pod] = cpus
}

// VectorsRequests are the exclusive CPUs that a container, or a whole pod, asks for.
func VectorsRequests(policy Policy, pod *v1.Pod, container *v1.Container) int {
	static := policy.(*staticPolicy)
	if container == nil {
		return call.Func(static.podGuaranteedCPUs, pod)[0].(int)
	}
	return call.Func(static.guaranteedCPUs, pod, container)[0].(int)
}

// VectorsCleanUp releases what pods hold that are gone.
func VectorsCleanUp(m Manager) {
	call.Func(m.(*manager).removeStaleState)
}

// VectorsTakesSockets is whether the distributed algorithm is given the option align-by-socket.
func VectorsTakesSockets() bool {
	kind := reflect.TypeOf(takeByTopologyNUMADistributed)
	return kind.In(kind.NumIn()-1).Kind() == reflect.Bool
}

// VectorsReservedOf are the reserved CPUs of a manager with a static policy.
func VectorsReservedOf(m Manager) cpuset.CPUSet {
	return m.(*manager).policy.(*staticPolicy).reservedCPUs
}
