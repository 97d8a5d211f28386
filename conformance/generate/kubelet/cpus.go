package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/utils/cpuset"
	"pinfold.dev/generate/kubelet/call"
)

type takeInput struct {
	Algorithm string `json:"algorithm"`
	Available string `json:"available"`
	GroupSize int    `json:"cpu_group_size"`
	NumCPUs   int    `json:"num_cpus"`
	ByUncore  bool   `json:"prefer_align_by_uncore"`
	BySocket  bool   `json:"align_by_socket,omitempty"`
	Sorting   string `json:"sorting"`
	Topology  string `json:"topology"`
}

// some are some of the machine's CPUs: all, most, whole cores or any.
func (g *generator) some(m *machine) cpuset.CPUSet {
	all := m.cpus()
	switch g.IntN(4) {
	case 0:
		return cpuset.New(all...)
	case 1:
		kept := []int{}
		for _, node := range m.Nodes {
			for _, core := range node.Cores {
				if chance(g.Rand, 70) {
					kept = append(kept, core.Threads...)
				}
			}
		}
		return cpuset.New(kept...)
	}
	percent := pick(g.Rand, 30, 60, 90)
	kept := []int{}
	for _, cpu := range all {
		if chance(g.Rand, percent) {
			kept = append(kept, cpu)
		}
	}
	return cpuset.New(kept...)
}

func generateTake(g *generator) (string, any, error) {
	m := g.machine()
	available := g.some(m)
	input := takeInput{Algorithm: "packed", Available: available.String(), GroupSize: 1, Sorting: "packed", Topology: m.ID}
	input.NumCPUs = 1 + g.IntN(available.Size()+1)
	if chance(g.Rand, 10) {
		input.NumCPUs = available.Size() + g.IntN(3)
	}
	options := cpuOptionNames()
	if chance(g.Rand, 50) {
		input.Algorithm = "distributed"
		input.GroupSize = pick(g.Rand, 1, m.smt())
		input.BySocket = options.bySocketInDistribution && chance(g.Rand, 40)
		return "distributed", input, nil
	}
	if options.acrossCores && chance(g.Rand, 20) {
		input.Sorting = "spread"
	} else if options.byUncore && chance(g.Rand, 40) {
		input.ByUncore = true
	}
	return "packed", input, nil
}

func decideTake(w *world, text json.RawMessage) (any, error) {
	var input takeInput
	if err := json.Unmarshal(text, &input); err != nil {
		return nil, err
	}
	m, ok := w.machines[input.Topology]
	if !ok {
		return nil, fmt.Errorf("no machine %q", input.Topology)
	}
	topo, err := m.topology()
	if err != nil {
		return nil, err
	}
	available, err := cpuset.Parse(input.Available)
	if err != nil {
		return nil, err
	}
	var taken cpuset.CPUSet
	end := guarded(func() {
		taken, err = cpumanager.VectorsTake(input.Algorithm == "distributed", topo, available, input.NumCPUs, input.GroupSize, input.Sorting, input.ByUncore, input.BySocket)
	})
	if end != nil {
		end["cpus"], end["error"] = nil, nil
		return end, nil
	}
	if err != nil {
		return map[string]any{"cpus": nil, "error": err.Error()}, nil
	}
	return map[string]any{"cpus": taken.String(), "error": nil}, nil
}

// guarded runs a decision of the kubelet: the answer for one that never returns or crashes.
func guarded(decision func()) (end map[string]any) {
	defer func() {
		switch caught := recover(); caught {
		case nil:
		case cpumanager.VectorsEndless:
			end = map[string]any{"hang": true}
		default:
			end = map[string]any{"panic": fmt.Sprint(caught)}
		}
	}()
	decision()
	return nil
}

type cpuHintsInput struct {
	Topology       string                       `json:"topology"`
	Options        map[string]string            `json:"options"`
	TopologyPolicy string                       `json:"topology_policy"`
	NumReserved    int                          `json:"num_reserved"`
	Reserved       *string                      `json:"reserved_cpus"`
	Default        *string                      `json:"default_cpuset,omitempty"`
	Assignments    map[string]map[string]string `json:"assignments,omitempty"`
	Reusable       *string                      `json:"reusable,omitempty"`
	Pod            *pod                         `json:"pod,omitempty"`
	Allocate       *allocation                  `json:"allocate,omitempty"`
}

type allocation struct {
	Affinity  *[]int `json:"affinity"`
	Container string `json:"container"`
}

func generateCPUHints(g *generator) (string, any, error) {
	m := g.machine()
	all := cpuset.New(m.cpus()...)
	input := cpuHintsInput{Topology: m.ID, Options: g.cpuOptions(), TopologyPolicy: pick(g.Rand, "none", "best-effort", "restricted", "single-numa-node"), NumReserved: 1 + g.IntN(min(3, all.Size()))}
	if chance(g.Rand, 30) {
		cpus := slices.Clone(all.List())
		g.Shuffle(len(cpus), func(a, b int) { cpus[a], cpus[b] = cpus[b], cpus[a] })
		text := cpuset.New(cpus[:input.NumReserved]...).String()
		input.Reserved = &text
	}
	policy, err := staticPolicy(m, &input)
	if err != nil {
		return "policy-error", input, nil
	}
	reserved, _ := cpumanager.VectorsReserved(policy)
	shared, free := all, all.Difference(reserved)
	input.Assignments = map[string]map[string]string{}
	for at := range g.IntN(6) {
		some := g.some(m).Intersection(free).List()
		g.Shuffle(len(some), func(a, b int) { some[a], some[b] = some[b], some[a] })
		held := cpuset.New(some[:min(len(some), 1+g.IntN(6))]...)
		if held.IsEmpty() {
			continue
		}
		input.Assignments[fmt.Sprintf("other%d", at+1)] = map[string]string{"c0": held.String()}
		shared, free = shared.Difference(held), free.Difference(held)
	}
	made := generatePod(g.Rand, "pod", wish{cpus: max(1, all.Size()/3), memory: 256})
	input.Pod = &made
	reusable := ""
	if chance(g.Rand, 25) {
		some := free.List()
		left := cpuset.New(some[:min(len(some), 1+g.IntN(3))]...)
		reusable = left.String()
		if !left.IsEmpty() {
			input.Assignments["pod"] = map[string]string{"earlier": reusable}
			shared = shared.Difference(left)
		}
	}
	text := shared.String()
	input.Reusable, input.Default = &reusable, &text
	containers := made.all()
	input.Allocate = &allocation{g.mask(m), containers[g.IntN(len(containers))].Name}
	return input.TopologyPolicy, input, nil
}

// mask is an affinity: of some NUMA nodes, or none at all.
func (g *generator) mask(m *machine) *[]int {
	if chance(g.Rand, 15) {
		return nil
	}
	bits := []int{}
	for _, node := range m.Nodes {
		if chance(g.Rand, 45) {
			bits = append(bits, node.ID)
		}
	}
	slices.Sort(bits)
	return &bits
}

func staticPolicy(m *machine, input *cpuHintsInput) (cpumanager.Policy, error) {
	topo, err := m.topology()
	if err != nil {
		return nil, err
	}
	reserved := cpuset.New()
	if input.Reserved != nil {
		if reserved, err = cpuset.Parse(*input.Reserved); err != nil {
			return nil, err
		}
	}
	var mask *[]int
	if input.Allocate != nil {
		mask = input.Allocate.Affinity
	}
	affinity, err := fixed(mask, false, input.TopologyPolicy)
	if err != nil {
		return nil, err
	}
	results := call.Func(cpumanager.NewStaticPolicy, topo, input.NumReserved, reserved, affinity, input.Options)
	policy, _ := results[0].(cpumanager.Policy)
	return policy, call.Error(results)
}

func decideCPUHints(w *world, text json.RawMessage) (any, error) {
	var input cpuHintsInput
	if err := json.Unmarshal(text, &input); err != nil {
		return nil, err
	}
	m, ok := w.machines[input.Topology]
	if !ok {
		return nil, fmt.Errorf("no machine %q", input.Topology)
	}
	policy, err := staticPolicy(m, &input)
	if err != nil {
		return map[string]any{"policy_error": err.Error()}, nil
	}
	reserved, physical := cpumanager.VectorsReserved(policy)
	found := map[string]any{"reserved": reserved.String(), "reserved_physical": physical.String()}
	if input.Pod == nil {
		return found, nil
	}
	cpus := call.Func(state.NewMemoryState)[0].(state.State)
	shared, err := cpuset.Parse(*input.Default)
	if err != nil {
		return nil, err
	}
	cpus.SetDefaultCPUSet(shared)
	for pod, containers := range input.Assignments {
		for name, held := range containers {
			set, err := cpuset.Parse(held)
			if err != nil {
				return nil, err
			}
			cpus.SetCPUSet(pod, name, set)
		}
	}
	reusable, err := cpuset.Parse(*input.Reusable)
	if err != nil {
		return nil, err
	}
	cpumanager.VectorsSetReusable(policy, "pod", reusable)
	object, err := input.Pod.object()
	if err != nil {
		return nil, err
	}
	hints := map[string]any{}
	for _, c := range input.Pod.all() {
		results := call.Method(policy, "GetTopologyHints", cpus, object, named(object, c.Name))
		hints[c.Name] = shownHints(results[0].(map[string][]topologymanager.TopologyHint))
	}
	found["container_hints"] = hints
	found["pod_hints"] = shownHints(call.Method(policy, "GetPodTopologyHints", cpus, object)[0].(map[string][]topologymanager.TopologyHint))
	var refused error
	end := guarded(func() {
		refused = call.Error(call.Method(policy, "Allocate", cpus, object, named(object, input.Allocate.Container)))
	})
	if end != nil {
		found["allocate"] = end
		return found, nil
	}
	allocated := map[string]any{"error": nil, "cpus": nil, "default_cpuset": cpus.GetDefaultCPUSet().String(), "reusable": cpumanager.VectorsReusable(policy, "pod").String()}
	if refused != nil {
		allocated["error"] = refused.Error()
	}
	if held, ok := cpus.GetCPUSet("pod", input.Allocate.Container); ok {
		allocated["cpus"] = held.String()
	}
	found["allocate"] = allocated
	return found, nil
}
