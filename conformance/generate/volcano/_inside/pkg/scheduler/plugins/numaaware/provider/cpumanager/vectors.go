//go:build go1.23

package cpumanager

import (
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/utils/cpuset"
)

// VectorsTake takes CPUs. The numbers of the topology are those of the provider.
func VectorsTake(details topology.CPUDetails, available cpuset.CPUSet, needed int) (cpuset.CPUSet, error) {
	return takeByTopology(&topology.CPUTopology{
		NumCPUs:    details.CPUs().Size(),
		NumCores:   getPhysicalCoresNum(details),
		NumSockets: details.Sockets().Size(),
		CPUDetails: details,
	}, available, needed)
}
