package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	mib = int64(1) << 20
	gpu = "nvidia.com/gpu"
)

var (
	bindPolicies = []string{"FullPCPUs", "SpreadByPCPUs", "FullPCPUs", "SpreadByPCPUs", "", "ConstrainedBurst"}
	exclusive    = []string{"", "", "None", "PCPULevel", "NUMANodeLevel"}
	strategies   = []string{"MostAllocated", "LeastAllocated", "DistributeEvenly"}
)

func generateAmplify(r *rand.Rand) amplifyInput {
	ratio := math.Round(r.Float64()*500) / 100
	origin := r.Int64N(pick(r, int64(1_000), 200_000, 4_000_000))
	if chance(r, 10) {
		ratio, origin = pick(r, 0, 0.5, 1, 1.000001, 100), pick(r, int64(0), 1, 1<<40)
	}
	return amplifyInput{origin, ratio}
}

var scored = []string{"cpu", "memory", "ephemeral-storage", "koordinator.sh/batch-cpu", gpu}

func generateScore(r *rand.Rand) scoreInput {
	in := scoreInput{
		Strategy: pick(r, "LeastAllocated", "MostAllocated"), Weights: map[string]int64{},
		Allocatable: amounts{}, Requested: amounts{}, PodRequests: amounts{},
	}
	for _, name := range scored {
		unit := map[string]int64{"cpu": 1000, "memory": 1 << 28, "ephemeral-storage": 1 << 27}[name]
		if unit == 0 {
			unit = 1
		}
		if chance(r, 60) {
			in.Weights[name] = 1 + r.Int64N(5)
		}
		if chance(r, 85) {
			in.Allocatable[name] = unit * r.Int64N(400)
		}
		if chance(r, 70) {
			in.Requested[name] = unit * r.Int64N(200)
		}
		if chance(r, 60) {
			in.PodRequests[name] = r.Int64N(unit * 50)
		}
	}
	if len(in.Weights) == 0 {
		in.Weights["cpu"] = 1
	}
	return in
}

func generateTake(r *rand.Rand) takeInput {
	m := generateMachine(r, 6)
	in := takeInput{
		Topology: m.topology(), MaxRefCount: pick(r, 1, 1, 1, 2, 3), Preferred: []int{}, Allocated: []heldCPU{},
		BindPolicy: pick(r, bindPolicies...), ExclusivePolicy: pick(r, exclusive...), NUMAStrategy: pick(r, strategies...),
	}
	in.Available = m.some(r, pick(r, 30, 60, 90, 100))
	for _, row := range m.rows {
		free := slices.Contains(in.Available, row[0])
		shared := free && in.MaxRefCount > 1 && chance(r, 30)
		if free && !shared || chance(r, 20) {
			continue
		}
		refs := in.MaxRefCount
		if shared {
			refs = 1 + r.IntN(in.MaxRefCount-1)
		}
		in.Allocated = append(in.Allocated, heldCPU{row[0], row[1], row[2], row[3], refs, pick(r, exclusive...)})
	}
	if chance(r, 25) {
		in.Preferred = m.some(r, 30)
	}
	in.Needed = r.IntN(len(in.Available) + 2)
	if chance(r, 60) {
		in.Needed = min(in.Needed, m.smt*(1+r.IntN(4)))
	}
	return in
}

func generateMerge(r *rand.Rand) mergeInput {
	nodes := 1 + r.IntN(4)
	in := mergeInput{
		Policy:          pick(r, "best-effort", "restricted", "single-numa-node", "best-effort", "restricted", "none"),
		ExclusivePolicy: pick(r, "", "Required", "Required", "Preferred"),
		Providers:       []map[string][]hintInput{},
	}
	for node := range nodes {
		in.NUMANodes = append(in.NUMANodes, node)
		in.NUMANodeStatus = append(in.NUMANodeStatus, pick(r, "idle", "idle", "single", "shared"))
	}
	names := []string{"cpu", "memory", "koordinator.sh/gpu", "koordinator.sh/batch-cpu"}
	for range 1 + r.IntN(3) {
		if chance(r, 15) {
			in.Providers = append(in.Providers, nil)
			continue
		}
		rows := map[string][]hintInput{}
		for range r.IntN(3) {
			rows[pick(r, names...)] = generateHintList(r, nodes)
		}
		in.Providers = append(in.Providers, rows)
	}
	return in
}

// generateHintList is nil for a resource without a preference and empty for one that fits nowhere.
func generateHintList(r *rand.Rand, nodes int) []hintInput {
	if chance(r, 8) {
		return nil
	}
	list := []hintInput{}
	narrow := nodes
	for mask := 1; mask < 1<<nodes; mask++ {
		if chance(r, 45) {
			bits := bitsOf(mask)
			narrow = min(narrow, len(bits))
			list = append(list, hintInput{Affinity: bits, Score: r.Int64N(pick(r, int64(1), 4, 101))})
		}
	}
	slices.SortStableFunc(list, func(a, b hintInput) int { return len(a.Affinity) - len(b.Affinity) })
	for at := range list {
		list[at].Preferred = len(list[at].Affinity) == narrow || chance(r, 5)
	}
	if chance(r, 5) {
		list = append(list, hintInput{Preferred: chance(r, 50), Unsatisfied: chance(r, 30), Score: r.Int64N(10)})
	}
	return list
}

func bitsOf(mask int) []int {
	bits := []int{}
	for bit := range 16 {
		if mask>>bit&1 == 1 {
			bits = append(bits, bit)
		}
	}
	return bits
}

// generateNode is a node of at most four NUMA nodes, some pods on it, and the CPUs that are free.
func generateNode(r *rand.Rand) (nodeInput, machine, []int) {
	m := generateMachine(r, 4)
	in := nodeInput{
		Topology: m.topology(), ReservedCPUs: []int{}, MaxRefCount: pick(r, 1, 1, 1, 1, 2),
		AmplificationRatios: map[string]float64{}, NUMAStrategy: pick(r, strategies...), Pods: []heldPod{},
	}
	if chance(r, 25) {
		in.ReservedCPUs = m.some(r, 10)
	}
	if chance(r, 30) {
		in.AmplificationRatios["cpu"] = 1 + math.Round(r.Float64()*150)/100
	}
	ratio := max(1, in.AmplificationRatios["cpu"])
	for node := range m.nodes {
		reserved := 0
		for _, row := range m.rows {
			if row[2] == node && slices.Contains(in.ReservedCPUs, row[0]) {
				reserved++
			}
		}
		has := amounts{
			"cpu":    int64(math.Ceil(float64((m.on(node)-reserved)*1000) * ratio)),
			"memory": 256 * mib * (8 + r.Int64N(60)),
		}
		if chance(r, 25) {
			has[gpu] = r.Int64N(4)
		}
		if chance(r, 4) {
			delete(has, "memory")
		}
		in.NUMANodeResources = append(in.NUMANodeResources, onNode{node, has})
	}
	free := []int{}
	for _, row := range m.rows {
		if !slices.Contains(in.ReservedCPUs, row[0]) {
			free = append(free, row[0])
		}
	}
	for number := range r.IntN(5) {
		in.Pods = append(in.Pods, generateHeld(r, m, number, &free))
	}
	return in, m, free
}

func generateHeld(r *rand.Rand, m machine, number int, free *[]int) heldPod {
	pod := heldPod{UID: fmt.Sprintf("p%d", number), CPUSet: []int{}, ExclusivePolicy: pick(r, exclusive...), NUMANodeResources: []onNode{}}
	if chance(r, 65) {
		pod.CPUSet = few(r, free, 6)
	}
	held := map[int]int64{}
	for _, row := range m.rows {
		if slices.Contains(pod.CPUSet, row[0]) {
			held[row[2]] += 1000
		}
	}
	for node := range m.nodes {
		if chance(r, 40) {
			amounts := amounts{"cpu": held[node], "memory": 256 * mib * r.Int64N(12)}
			if len(pod.CPUSet) == 0 {
				amounts["cpu"] = r.Int64N(2000)
			}
			pod.NUMANodeResources = append(pod.NUMANodeResources, onNode{node, amounts})
		}
	}
	return pod
}

func generateOptions(r *rand.Rand, in nodeInput, m machine, free []int) optionsInput {
	o := optionsInput{
		RequestCPUBind: chance(r, 60), CPUExclusivePolicy: pick(r, exclusive...),
		OriginalRequests: amounts{}, Requests: amounts{},
	}
	if o.RequestCPUBind {
		o.NumCPUsNeeded = 1 + r.IntN(max(1, min(len(free)+1, pick(r, 4, 8, 64))))
		o.OriginalRequests["cpu"] = int64(o.NumCPUsNeeded) * 1000
		o.CPUBindPolicy = pick(r, "FullPCPUs", "SpreadByPCPUs")
		o.RequiredCPUBindPolicy = chance(r, 40)
	} else if chance(r, 90) {
		o.OriginalRequests["cpu"] = 1 + r.Int64N(int64(len(m.rows))*1100)
		o.NumCPUsNeeded = int(o.OriginalRequests["cpu"] / 1000)
	}
	if chance(r, 70) {
		o.OriginalRequests["memory"] = r.Int64N(mib * 1024 * pick(r, int64(4), 16, 64))
	}
	if chance(r, 15) {
		o.OriginalRequests[gpu] = 1 + r.Int64N(3)
	}
	if chance(r, 8) {
		o.OriginalRequests["example.com/foo"] = 1
	}
	for name, amount := range o.OriginalRequests {
		o.Requests[name] = amount
	}
	if ratio := in.AmplificationRatios["cpu"]; o.RequestCPUBind && ratio > 1 {
		o.Requests["cpu"] = int64(math.Ceil(float64(o.OriginalRequests["cpu"]) * ratio))
	}
	return o
}

func generateHints(r *rand.Rand) hintsInput {
	node, m, free := generateNode(r)
	in := hintsInput{nodeInput: node, Options: generateOptions(r, node, m, free)}
	in.Policy = pick(r, "BestEffort", "Restricted", "SingleNUMANode")
	if chance(r, 75) {
		in.NUMAScorer = &scorerInput{pick(r, "LeastAllocated", "MostAllocated"), map[string]int64{"cpu": 1 + r.Int64N(3), "memory": 1 + r.Int64N(3)}}
	}
	return in
}

func generateAllocate(r *rand.Rand) allocateInput {
	node, m, free := generateNode(r)
	in := allocateInput{node, generateOptions(r, node, m, free)}
	o := &in.Options
	o.Hint = &hintInput{}
	if chance(r, 80) {
		o.Hint.Affinity = bitsOf(1 + r.IntN(1<<m.nodes-1))
	}
	var held []int
	for _, pod := range node.Pods {
		held = append(held, pod.CPUSet...)
	}
	slices.Sort(held)
	held = slices.Compact(held)
	if chance(r, 25) {
		o.PreferredCPUs = few(r, &held, 4)
	}
	if chance(r, 20) {
		o.PreemptibleCPUs = few(r, &held, 4)
	}
	for number := range m.nodes {
		if chance(r, 12) {
			o.ReusableResources = append(o.ReusableResources, onNode{number, amounts{"cpu": 1000 * r.Int64N(4), "memory": 256 * mib * r.Int64N(4)}})
		}
		if chance(r, 4) {
			o.RequiredResources = append(o.RequiredResources, onNode{number, amounts{"cpu": 1000 * r.Int64N(6), "memory": 256 * mib * r.Int64N(30)}})
		}
	}
	return in
}
