// Package api has, beside two files of Volcano's package of the same name, types that stand in for the rest of it, which
// links all kinds of devices. The plugin reads these fields only.
package api

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

type (
	// TaskID is the UID of a pod.
	TaskID string
	// TopologyInfo is the policy that a task asks for.
	TopologyInfo struct {
		Policy string
		ResMap map[int]v1.ResourceList
	}
	// TaskInfo is a pod.
	TaskInfo struct {
		UID                       TaskID
		Name, Namespace, NodeName string
		Pod                       *v1.Pod
		NumaInfo                  *TopologyInfo
	}
	// NodeInfo is a node.
	NodeInfo struct {
		Name              string
		NumaSchedulerInfo *NumatopoInfo
	}
	// Status says why a task does not fit a node.
	Status struct {
		Code           int
		Reason, Plugin string
	}
	// StatusSets are several.
	StatusSets []*Status
)

// The codes that the plugin uses.
const (
	Error                        = 1
	UnschedulableAndUnresolvable = 3
)

// Reasons are the reasons of all.
func (s StatusSets) Reasons() []string {
	reasons := []string{}
	for _, status := range s {
		reasons = append(reasons, status.Reason)
	}
	return reasons
}

// ContainsUnschedulableAndUnresolvable is not asked.
func (s StatusSets) ContainsUnschedulableAndUnresolvable() bool { return false }

// ResQuantity2Float64 is not asked: amounts of memory by NUMA node are not part of the vectors.
func ResQuantity2Float64(v1.ResourceName, resource.Quantity) float64 { return 0 }

// The annotation with amounts by NUMA node is not read.
const topologyDecisionAnnotation = ""
