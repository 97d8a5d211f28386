package main

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
)

func hasGate(name string) bool {
	_, ok := utilfeature.DefaultMutableFeatureGate.GetAll()[featuregate.Feature(name)]
	return ok
}

// setGates switches the gates that this version has.
func setGates(gates map[string]bool) {
	known := map[string]bool{}
	for name, on := range gates {
		if hasGate(name) {
			known[name] = on
		}
	}
	check(utilfeature.DefaultMutableFeatureGate.SetFromMap(known))
}

// optionNames says which options a version knows.
type optionNames struct {
	all                    []string
	acrossCores            bool
	byUncore               bool
	bySocketInDistribution bool
}

var allCPUOptions = []string{
	"full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket", "distribute-cpus-across-cores",
	"strict-cpu-reservation", "prefer-align-cpus-by-uncorecache",
}

// cpuOptionNames asks the version itself: an option that it does not know is refused by name.
func cpuOptionNames() optionNames {
	names := optionNames{bySocketInDistribution: cpumanager.VectorsTakesSockets()}
	for _, name := range allCPUOptions {
		options := map[string]string{name: "true"}
		if _, err := cpumanager.NewStaticPolicyOptions(options); err != nil {
			continue
		}
		names.all = append(names.all, name)
		names.acrossCores = names.acrossCores || name == "distribute-cpus-across-cores"
		names.byUncore = names.byUncore || name == "prefer-align-cpus-by-uncorecache"
	}
	return names
}

// cpuOptions are some options, mostly ones that the version knows.
func (g *generator) cpuOptions() map[string]string {
	options := map[string]string{}
	known := cpuOptionNames().all
	for range pick(g.Rand, 0, 0, 1, 1, 1, 2, 2) {
		options[known[g.IntN(len(known))]] = "true"
	}
	if chance(g.Rand, 4) {
		options[pick(g.Rand, allCPUOptions...)] = pick(g.Rand, "true", "false", "yes")
	}
	return options
}

func (g *generator) topologyOptions() map[string]string {
	options := map[string]string{}
	if chance(g.Rand, 25) {
		options["prefer-closest-numa-nodes"] = pick(g.Rand, "true", "true", "false")
	}
	return options
}
