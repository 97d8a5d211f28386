package main

import (
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/utils/cpuset"
	"pinfold.dev/generate/kubelet/call"
)

// The families pod_cpu_requests and pod_memory_requests: how much a pod and its containers ask for.

type requestsInput struct {
	Pod pod `json:"pod"`
}

func generatePodRequests(g *generator) (string, any, error) {
	made := generatePod(g.Rand, "pod", wish{cpus: 6, memory: 2048, hugepages: []string{"2Mi", "1Gi"}, devices: []string{"example.com/gpu"}, podLevel: hasGate("PodLevelResources")})
	odd := func(of map[string]string) {
		if _, ok := of["memory"]; ok && chance(g.Rand, 15) {
			of["memory"] = pick(g.Rand, "1.5Gi", "128M", "0", "1e9", "1000m", "0.5Gi", "64Mi", "1k")
		}
		if _, ok := of["cpu"]; ok && chance(g.Rand, 15) {
			of["cpu"] = pick(g.Rand, "0", "100u", "0.001", "2e0", "1.5", "3", "1k")
		}
	}
	for _, containers := range [][]container{made.InitContainers, made.Containers} {
		for at := range containers {
			odd(containers[at].Requests)
			if chance(g.Rand, 90) && len(containers[at].Limits) > 0 {
				for resource, amount := range containers[at].Requests {
					if _, ok := containers[at].Limits[resource]; ok {
						containers[at].Limits[resource] = amount
					}
				}
			}
		}
	}
	tag := ""
	if object, err := made.object(); err == nil {
		for _, c := range append(object.Spec.InitContainers, object.Spec.Containers...) {
			if _, err := memorymanager.VectorsRequests(object, &c); err != nil && strings.Contains(err.Error(), "int64") {
				tag = "quantity-not-int64"
			}
		}
	}
	return tag, requestsInput{made}, nil
}

func decidePodCPURequests(_ *world, text json.RawMessage) (any, error) {
	object, input, err := readPod(text)
	if err != nil {
		return nil, err
	}
	affinity, err := fixed(nil, false, "none")
	if err != nil {
		return nil, err
	}
	one := &machine{NumCPUs: 2, NumSockets: 1, Nodes: []numaNode{{Cores: []core{{Threads: []int{0}}, {Core: 1, Threads: []int{1}}}}}}
	topo, err := one.topology()
	if err != nil {
		return nil, err
	}
	results := call.Func(cpumanager.NewStaticPolicy, topo, 1, cpuset.New(), affinity, map[string]string{})
	if err := call.Error(results); err != nil {
		return nil, err
	}
	policy := results[0].(cpumanager.Policy)
	measured := func() map[string]any {
		containers := map[string]int{}
		for _, c := range input.Pod.all() {
			containers[c.Name] = cpumanager.VectorsRequests(policy, object, named(object, c.Name))
		}
		return map[string]any{"container_cpus": containers, "pod_cpus": cpumanager.VectorsRequests(policy, object, nil)}
	}
	found := map[string]any{"qos": string(qos.GetPodQOS(object)), "gate_off": measured()}
	if hasGate("PodLevelResourceManagers") {
		setGates(map[string]bool{"PodLevelResourceManagers": true})
		found["gate_on"] = measured()
		setGates(map[string]bool{"PodLevelResourceManagers": false})
	}
	return found, nil
}

func decidePodMemoryRequests(_ *world, text json.RawMessage) (any, error) {
	object, input, err := readPod(text)
	if err != nil {
		return nil, err
	}
	measured := func(c *v1.Container) any {
		amounts, err := memorymanager.VectorsRequests(object, c)
		if err != nil {
			return map[string]any{"error": err.Error()}
		}
		return amounts
	}
	containers := map[string]any{}
	for _, c := range input.Pod.all() {
		containers[c.Name] = measured(named(object, c.Name))
	}
	return map[string]any{"containers": containers, "pod": measured(nil)}, nil
}

func readPod(text json.RawMessage) (*v1.Pod, requestsInput, error) {
	var input requestsInput
	if err := json.Unmarshal(text, &input); err != nil {
		return nil, input, err
	}
	object, err := input.Pod.object()
	return object, input, err
}
