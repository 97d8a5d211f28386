//go:build go1.23

// What the generator of test vectors needs of this package and is not exported.

package topologymanager

import (
	"maps"
	"slices"

	apiext "github.com/koordinator-sh/koordinator/apis/extension"
)

// vectorsSorted are the resources of a provider in the order of their names: the answer depends on the order.
func vectorsSorted(hints map[string][]NUMATopologyHint) []string {
	return slices.Sorted(maps.Keys(hints))
}

// VectorsPolicy is the policy of a name.
func VectorsPolicy(name apiext.NUMATopologyPolicy, nodes []int) Policy {
	if name == apiext.NUMATopologyPolicyNone {
		return NewNonePolicy()
	}
	return createNUMATopologyPolicy(name, nodes)
}
