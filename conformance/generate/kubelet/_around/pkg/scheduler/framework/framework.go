// Package framework stands in for the scheduler's package of the same name: the device manager corrects a node's
// allocatable amounts for the checks after admission, which the vectors do not have.
package framework

import (
	"maps"

	v1 "k8s.io/api/core/v1"
)

type (
	// Resource is amounts by resource.
	Resource struct{ ScalarResources map[v1.ResourceName]int64 }
	// NodeInfo is what the scheduler knows of a node.
	NodeInfo struct{ Allocatable *Resource }
)

// Clone is a copy.
func (r *Resource) Clone() *Resource { return &Resource{maps.Clone(r.ScalarResources)} }
