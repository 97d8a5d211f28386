//go:build go1.23

package nodenumaresource

import (
	"maps"
	"slices"

	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	schedulingconfig "github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
)

// VectorsStrategy is a scoring strategy with its weights.
func VectorsStrategy(kind string, weights map[string]int64) *schedulingconfig.ScoringStrategy {
	strategy := &schedulingconfig.ScoringStrategy{Type: schedulingconfig.ScoringStrategyType(kind)}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		strategy.Resources = append(strategy.Resources, schedconfig.ResourceSpec{Name: name, Weight: weights[name]})
	}
	return strategy
}
