//go:build go1.23

package policy

import (
	"maps"
	"slices"
)

// vectorsSorted are the resources of a provider in the order of their names.
func vectorsSorted(hints map[string][]TopologyHint) []string {
	return slices.Sorted(maps.Keys(hints))
}
