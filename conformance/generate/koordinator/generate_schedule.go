package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

const (
	nodeDomain = "node.koordinator.sh/"
	podDomain  = "scheduling.koordinator.sh/"
)

// generateSchedule is a node and pods that come to it one after the other; with onNUMA most of them under a NUMA policy.
func generateSchedule(r *rand.Rand, onNUMA bool) scheduleInput {
	m := generateMachine(r, 4)
	ratio := 1.0
	node := clusterNode{Labels: map[string]string{}, Annotations: map[string]string{}}
	if chance(r, 35) {
		ratio = 1 + float64(r.IntN(15))/10
		node.Annotations[nodeDomain+"resource-amplification-ratio"] = fmt.Sprintf(`{"cpu":%.2f}`, ratio)
	}
	report := &reportInput{Annotations: map[string]string{}, TopologyPolicies: []string{}, Zones: []zoneInput{}}
	memory := 0
	for number := range m.nodes {
		gib := 4 + r.IntN(40)
		memory += gib
		report.Zones = append(report.Zones, zoneInput{
			fmt.Sprintf("node-%d", number), "Node",
			quantities{"cpu": strconv.Itoa(m.on(number)), "memory": fmt.Sprintf("%dGi", gib)},
		})
	}
	node.Allocatable = quantities{
		"cpu": fmt.Sprintf("%dm", int64(float64(len(m.rows)*1000)*ratio)), "memory": fmt.Sprintf("%dGi", memory),
	}
	report.Annotations[nodeDomain+"cpu-topology"] = topologyText(m)
	policy := []string{"BestEffort", "Restricted", "SingleNUMANode"}
	if chance(r, pick(r, 15, 50)) || onNUMA && chance(r, 60) {
		node.Labels[nodeDomain+"numa-topology-policy"] = pick(r, policy...)
	}
	if chance(r, 30) {
		node.Labels[nodeDomain+"cpu-bind-policy"] = pick(r, "None", "FullPCPUsOnly", "SpreadByPCPUs", "PCPUOnly")
	}
	if chance(r, 35) {
		node.Labels[nodeDomain+"numa-allocate-strategy"] = pick(r, strategies...)
	}
	if chance(r, 25) {
		report.TopologyPolicies = append(report.TopologyPolicies, pick(r, "None", "BestEffort", "Restricted", "SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel", "RestrictedPodLevel"))
	}
	annotateReport(r, m, report)
	in := scheduleInput{Node: node, NRT: report, Args: generateArgs(r)}
	switch {
	case chance(r, 3):
		in.NRT = nil
	case chance(r, 3):
		delete(report.Annotations, nodeDomain+"cpu-topology")
	case chance(r, 3):
		report.Zones = []zoneInput{}
	}
	for number := range 2 + r.IntN(6) {
		in.Pods = append(in.Pods, generatePod(r, m, number, onNUMA))
	}
	return in
}

// annotateReport adds what reserves CPUs.
func annotateReport(r *rand.Rand, m machine, report *reportInput) {
	if chance(r, 25) {
		report.Annotations["kubelet.koordinator.sh/cpu-manager-policy"] = fmt.Sprintf(
			`{"policy":%q,"options":{"full-pcpus-only":%q},"reservedCPUs":%q}`,
			pick(r, "none", "static"), pick(r, "true", "false"), cpuText(r, m, 10))
	}
	if chance(r, 15) {
		report.Annotations[nodeDomain+"reservation"] = pick(r, "{}", fmt.Sprintf(`{"reservedCPUs":%q}`, cpuText(r, m, 10)))
	}
	if chance(r, 15) {
		report.Annotations[nodeDomain+"system-qos-resource"] = fmt.Sprintf(
			`{"cpuset":%q%s}`, cpuText(r, m, 10), pick(r, "", `,"cpusetExclusive":false`, `,"cpusetExclusive":true`))
	}
	if chance(r, 15) {
		report.Annotations[nodeDomain+"pod-cpu-allocs"] = fmt.Sprintf(
			`[{"namespace":"d","name":"held","uid":"held","cpuset":%q,"managedByKubelet":%v}]`, cpuText(r, m, 10), chance(r, 80))
	}
}

func topologyText(m machine) string {
	var rows []string
	for _, row := range m.rows {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"core":%d,"socket":%d,"node":%d}`, row[0], row[1]&0xffff, row[3], row[2]))
	}
	return `{"detail":[` + strings.Join(rows, ",") + "]}"
}

func cpuText(r *rand.Rand, m machine, percent int) string {
	var ids []string
	for _, cpu := range m.some(r, percent) {
		ids = append(ids, strconv.Itoa(cpu))
	}
	return strings.Join(ids, ",")
}

func generateArgs(r *rand.Rand) argsInput {
	strategy := func() strategyInput {
		weights := map[string]int64{"cpu": 1, "memory": 1}
		if chance(r, 30) {
			weights["cpu"], weights["memory"] = 1+r.Int64N(5), 1+r.Int64N(5)
		}
		return strategyInput{pick(r, "LeastAllocated", "MostAllocated"), weights}
	}
	return argsInput{pick(r, "FullPCPUs", "FullPCPUs", "SpreadByPCPUs", ""), strategy(), strategy()}
}

func generatePod(r *rand.Rand, m machine, number int, onNUMA bool) podInput {
	pod := podInput{Name: fmt.Sprintf("p%d", number), Labels: map[string]string{}, Annotations: map[string]string{}, DeleteBefore: []string{}}
	if chance(r, 70) {
		pod.Labels["koordinator.sh/qosClass"] = pick(r, "LSR", "LSE", "LSR", "LS", "BE", "SYSTEM", "none")
	}
	if chance(r, 80) {
		priority := pick(r, int32(9500), 9500, 9500, 9000, 9999, 7500, 5500, 3500, 0, 100)
		pod.Priority = &priority
	}
	if chance(r, 8) {
		pod.Labels["koordinator.sh/priority-class"] = pick(r, "koord-prod", "koord-mid", "koord-batch", "other")
	}
	if chance(r, 60) {
		var fields []string
		field := func(name string, percent int, values ...string) {
			if chance(r, percent) {
				fields = append(fields, fmt.Sprintf("%q:%q", name, pick(r, values...)))
			}
		}
		bind := []string{"Default", "FullPCPUs", "SpreadByPCPUs", "FullPCPUs", "SpreadByPCPUs", "ConstrainedBurst"}
		field("requiredCPUBindPolicy", 30, bind...)
		field("preferredCPUBindPolicy", 60, bind...)
		field("preferredCPUExclusivePolicy", 40, "None", "PCPULevel", "NUMANodeLevel")
		pod.Annotations[podDomain+"resource-spec"] = "{" + strings.Join(fields, ",") + "}"
	}
	share := 20
	if onNUMA {
		share = 55
	}
	if chance(r, share) {
		fields := []string{fmt.Sprintf(`"numaTopologyPolicy":%q`, pick(r, "BestEffort", "Restricted", "SingleNUMANode"))}
		if chance(r, 45) {
			fields = append(fields, fmt.Sprintf(`"singleNUMANodeExclusive":%q`, pick(r, "Preferred", "Required")))
		}
		pod.Annotations[podDomain+"numa-topology-spec"] = "{" + strings.Join(fields, ",") + "}"
	}
	if chance(r, 2) {
		pod.Annotations[podDomain+pick(r, "resource-spec", "numa-topology-spec")] = "{"
	}
	pod.Requests = quantities{}
	if chance(r, 95) {
		cpus := 1 + r.IntN(max(1, min(len(m.rows)+1, pick(r, 2, 4, 8, 64))))
		pod.Requests["cpu"] = strconv.Itoa(cpus)
		if chance(r, 15) {
			pod.Requests["cpu"] = fmt.Sprintf("%dm", 1+r.IntN(cpus*1000))
		}
	}
	if chance(r, 75) {
		pod.Requests["memory"] = fmt.Sprintf("%dMi", 256*(1+r.IntN(pick(r, 8, 40, 120))))
	}
	for earlier := range number {
		if chance(r, 12) {
			pod.DeleteBefore = append(pod.DeleteBefore, fmt.Sprintf("p%d", earlier))
		}
	}
	return pod
}
