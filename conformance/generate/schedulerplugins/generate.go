package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
)

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

const gpu = "nvidia.com/gpu"

// generateReport is a report, and what the node has of everything.
func generateReport(r *rand.Rand, nodes int) (*reportInput, quantities) {
	report := &reportInput{TopologyPolicies: []string{}, Attributes: []attributeInput{}, Zones: []zoneInput{}}
	attribute := func(name, value string) {
		report.Attributes = append(report.Attributes, attributeInput{name, value})
	}
	switch {
	case chance(r, 30):
		report.TopologyPolicies = append(report.TopologyPolicies, pick(r,
			"SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel", "SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel",
			"BestEffortPodLevel", "BestEffort", "BestEffortContainerLevel", "None", "Restricted", "RestrictedContainerLevel", "RestrictedPodLevel"))
	default:
		attribute("topologyManagerPolicy", pick(r, "single-numa-node", "single-numa-node", "single-numa-node", "single-numa-node",
			"restricted", "best-effort", "none", "bogus"))
	}
	if chance(r, 55) {
		attribute("topologyManagerScope", pick(r, "container", "pod", "container", "pod", "weird"))
	}
	if chance(r, 12) {
		attribute("topologyManagerMaxNUMANodes", pick(r, "8", "16", "64", "2000", "x", "0", "-1"))
	}
	hugepages, gpus, far := chance(r, 25), chance(r, 40), chance(r, 70)
	sum := map[string]int{}
	for node := range nodes {
		zone := zoneInput{Name: fmt.Sprintf("node-%d", node), Type: "Node", Costs: []costInput{}, Resources: []resourceInput{}}
		for other := range nodes {
			if cost := distance(r, node, other); far {
				zone.Costs = append(zone.Costs, costInput{fmt.Sprintf("node-%d", other), cost})
			}
		}
		add := func(name, unit string, most int) {
			capacity := r.IntN(most + 1)
			allocatable := capacity
			if chance(r, 20) {
				allocatable = r.IntN(capacity + 1)
			}
			available := allocatable
			if chance(r, 55) {
				available = r.IntN(allocatable + 1)
			}
			sum[name] += allocatable
			text := func(amount int) string { return strconv.Itoa(amount) + unit }
			zone.Resources = append(zone.Resources, resourceInput{name, text(capacity), text(allocatable), text(available)})
		}
		add("cpu", "", 24)
		if chance(r, 96) {
			add("memory", "Gi", 32)
		}
		if hugepages {
			add("hugepages-2Mi", "Mi", 512)
		}
		if gpus && chance(r, 75) {
			add(gpu, "", 4)
		}
		report.Zones = append(report.Zones, zone)
	}
	has := quantities{}
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		unit := map[string]string{"memory": "Gi", "hugepages-2Mi": "Mi"}[name]
		if chance(r, 96) {
			has[name] = strconv.Itoa(sum[name]) + unit
		}
	}
	if chance(r, 40) {
		has["ephemeral-storage"] = "100Gi"
	}
	if chance(r, 20) {
		has["example.com/foo"] = "5"
	}
	return report, has
}

func distance(r *rand.Rand, from, to int) int64 {
	switch {
	case from == to:
		return 10
	case from/2 == to/2:
		return 12
	default:
		return pick(r, int64(20), 32)
	}
}

func generatePod(r *rand.Rand) podInput {
	pod := podInput{InitContainers: []containerInput{}, Containers: []containerInput{}}
	guaranteed := chance(r, 65)
	for number := range r.IntN(3) {
		container := generateContainer(r, fmt.Sprintf("init%d", number), guaranteed)
		if chance(r, 30) {
			always := "Always"
			container.RestartPolicy = &always
		}
		pod.InitContainers = append(pod.InitContainers, container)
		if chance(r, 55) {
			break
		}
	}
	for number := range 1 + r.IntN(3) {
		pod.Containers = append(pod.Containers, generateContainer(r, fmt.Sprintf("c%d", number), guaranteed))
	}
	if chance(r, 10) {
		pod.Overhead = quantities{"cpu": "250m", "memory": "120Mi"}
	}
	return pod
}

func generateContainer(r *rand.Rand, name string, guaranteed bool) containerInput {
	container := containerInput{Name: name, Requests: quantities{}, Limits: quantities{}}
	add := func(name string, percent int, amount string) {
		if !chance(r, percent) {
			return
		}
		container.Requests[name] = amount
		if guaranteed || name != "cpu" && name != "memory" || chance(r, 20) {
			container.Limits[name] = amount
		}
	}
	share := 60
	if guaranteed {
		share = 97
	}
	add("cpu", share, pick(r, strconv.Itoa(r.IntN(12)), strconv.Itoa(1+r.IntN(4)), fmt.Sprintf("%dm", r.IntN(6000))))
	add("memory", share, pick(r, fmt.Sprintf("%dGi", r.IntN(16)), fmt.Sprintf("%dMi", r.IntN(8192)), "1500M"))
	add("hugepages-2Mi", 10, fmt.Sprintf("%dMi", 2*r.IntN(200)))
	add(gpu, 20, strconv.Itoa(r.IntN(4)))
	add("ephemeral-storage", 6, "1Gi")
	add("example.com/foo", 6, "1")
	add("example.com/missing", 2, "1")
	return container
}

func generateFilter(r *rand.Rand) filterInput {
	report, has := generateReport(r, 1+r.IntN(4))
	in := filterInput{report, generatePod(r), has}
	if chance(r, 2) {
		in.NRT = nil
	}
	return in
}

func generateScore(r *rand.Rand) scoreInput {
	report, _ := generateReport(r, 1+r.IntN(4))
	in := scoreInput{report, generatePod(r), pick(r, "LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"), map[string]int64{}}
	for _, name := range []string{"cpu", "memory", gpu} {
		if chance(r, 35) {
			in.Weights[name] = pick(r, int64(1), 2, 3, 5, 10, 0, -1)
		}
	}
	return in
}
