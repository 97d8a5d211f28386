package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// generateMachine makes a machine of up to six NUMA nodes. Cores are numbered by their lowest CPU, one after the other in
// the machine or inside their socket, as Volcano's exporter reads them; or like a NUMA node's number of the core.
func generateMachine(r *rand.Rand) rows {
	sockets := 1 + r.IntN(3)
	perSocket := 1 + r.IntN(max(1, 6/sockets))
	perNode, smt := 1+r.IntN(6), pick(r, 1, 2, 2, 2, 4)
	cores := sockets * perSocket * perNode
	numbering := r.IntN(4)
	neighbours, offline, alternating := chance(r, 50), chance(r, 15), chance(r, 15)
	var machine rows
	for thread := range smt {
		for core := range cores {
			cpu, lowest := thread*cores+core, core
			if neighbours {
				cpu, lowest = core*smt+thread, core*smt
			}
			node := core / perNode
			if alternating {
				node = core % (sockets * perSocket)
			}
			socket := node / perSocket
			id := map[int]int{0: lowest, 1: core, 2: core % (perNode * perSocket), 3: core}[numbering]
			if offline && thread > 0 && chance(r, 20) {
				continue
			}
			machine = append(machine, [4]int{cpu, id, node, socket})
		}
	}
	slices.SortFunc(machine, func(a, b [4]int) int { return a[0] - b[0] })
	return machine
}

func (r rows) some(random *rand.Rand, percent int) []int {
	chosen := []int{}
	for _, row := range r {
		if chance(random, percent) {
			chosen = append(chosen, row[0])
		}
	}
	return chosen
}

func (r rows) nodes() []int {
	nodes := []int{}
	for _, row := range r {
		nodes = append(nodes, row[2])
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

func generateTake(r *rand.Rand) takeInput {
	machine := generateMachine(r)
	available := machine.some(r, pick(r, 30, 60, 90, 100))
	needed := r.IntN(len(available) + 2)
	if chance(r, 60) {
		needed = min(needed, 1+r.IntN(8))
	}
	return takeInput{machine, available, needed}
}

func generateRequests(r *rand.Rand, cpus int) quantities {
	requests := quantities{}
	if chance(r, 95) {
		requests["cpu"] = strconv.Itoa(1 + r.IntN(max(1, min(cpus+1, pick(r, 4, 8, 64)))))
		if chance(r, 12) {
			requests["cpu"] = pick(r, "0", "500m", "1500m", "2000m", "1e1", "0.001", "3000m")
		}
	}
	if chance(r, 40) {
		requests["memory"] = fmt.Sprintf("%dMi", 1+r.IntN(4096))
	}
	return requests
}

func generateReserved(r *rand.Rand) quantities {
	if chance(r, 65) {
		return quantities{}
	}
	return quantities{"cpu": pick(r, "1", "2", "500m", "1500m", "3", "100m", "0")}
}

func generateHints(r *rand.Rand) hintsInput {
	machine := generateMachine(r)
	in := hintsInput{machine, sets{"cpu": machine.some(r, pick(r, 40, 80, 100))}, generateReserved(r), generateRequests(r, len(machine))}
	if chance(r, 4) {
		in.Available = sets{}
	}
	return in
}

func generateAllocate(r *rand.Rand) allocateInput {
	in := allocateInput{hintsInput: generateHints(r)}
	in.Hint.Preferred = chance(r, 60)
	if chance(r, 90) {
		in.Hint.Affinity = []int{}
		for _, node := range in.CPUs.nodes() {
			if chance(r, 50) {
				in.Hint.Affinity = append(in.Hint.Affinity, node)
			}
		}
	}
	return in
}

func generateMerge(r *rand.Rand) mergeInput {
	nodes := 1 + r.IntN(5)
	in := mergeInput{Policy: pick(r, "best-effort", "restricted", "single-numa-node", "restricted", "none"), Providers: []map[string][]hintInput{}}
	for node := range nodes {
		in.NUMANodes = append(in.NUMANodes, node)
	}
	for range 1 + r.IntN(3) {
		if chance(r, 12) {
			in.Providers = append(in.Providers, nil)
			continue
		}
		rows := map[string][]hintInput{}
		for range r.IntN(3) {
			rows[pick(r, "cpu", "memory", "nvidia.com/gpu")] = generateHintList(r, nodes)
		}
		in.Providers = append(in.Providers, rows)
	}
	return in
}

func generateHintList(r *rand.Rand, nodes int) []hintInput {
	if chance(r, 8) {
		return nil
	}
	list := []hintInput{}
	narrow := nodes
	for mask := 1; mask < 1<<nodes; mask++ {
		if chance(r, 40) {
			var bits []int
			for node := range nodes {
				if mask>>node&1 == 1 {
					bits = append(bits, node)
				}
			}
			narrow = min(narrow, len(bits))
			list = append(list, hintInput{Affinity: bits})
		}
	}
	slices.SortStableFunc(list, func(a, b hintInput) int { return len(a.Affinity) - len(b.Affinity) })
	for at := range list {
		list[at].Preferred = len(list[at].Affinity) == narrow || chance(r, 5)
	}
	if chance(r, 5) {
		list = append(list, hintInput{Preferred: chance(r, 50)})
	}
	return list
}

func generateScore(r *rand.Rand) scoreInput {
	in := scoreInput{Weight: pick(r, 1, 1, 10, 100, 0, -5)}
	for number := range 1 + r.IntN(6) {
		node := scoredNode{Name: fmt.Sprintf("n%d", number), CPUs: generateMachine(r)}
		if chance(r, 85) {
			node.Assigned = node.CPUs.some(r, pick(r, 5, 20, 60))
		}
		in.Nodes = append(in.Nodes, node)
	}
	return in
}

var topologyPolicies = []string{"best-effort", "restricted", "single-numa-node", "none"}

func generateSession(r *rand.Rand) sessionInput {
	in := sessionInput{Weight: pick(r, 1, 1, 10, 100, 0)}
	common := pick(r, topologyPolicies...)
	for number := range 1 + r.IntN(4) {
		node := nodeInput{Name: fmt.Sprintf("n%d", number)}
		if chance(r, 92) {
			machine := generateMachine(r)
			policy := common
			if chance(r, 25) {
				policy = pick(r, topologyPolicies...)
			}
			node.Numa = &numaInput{
				Policies: map[string]string{"CPUManagerPolicy": "static", "TopologyManagerPolicy": policy},
				CPUs:     machine, Allocatable: sets{"cpu": machine.some(r, pick(r, 40, 80, 100))}, Reserved: generateReserved(r),
			}
			if chance(r, 8) {
				node.Numa.Policies["CPUManagerPolicy"] = "none"
			}
			if chance(r, 4) {
				node.Numa.Allocatable["cpu"] = []int{}
			}
			if chance(r, 2) {
				node.Numa.Allocatable = sets{}
			}
		}
		in.Nodes = append(in.Nodes, node)
	}
	for number := range 1 + r.IntN(5) {
		in.Tasks = append(in.Tasks, generateTask(r, number, common))
	}
	return in
}

func generateTask(r *rand.Rand, number int, common string) taskInput {
	task := taskInput{Name: fmt.Sprintf("t%d", number), Guaranteed: chance(r, 88)}
	if chance(r, 85) {
		policy := common
		if chance(r, 20) {
			policy = pick(r, "best-effort", "restricted", "single-numa-node", "none", "")
		}
		task.Policy = &policy
	}
	for at := range 1 + r.IntN(3) {
		requests := generateRequests(r, 8)
		if task.Guaranteed {
			// The class Guaranteed needs both.
			requests["memory"] = "1Gi"
			if requests["cpu"] == "" {
				requests["cpu"] = "1"
			}
		}
		task.Containers = append(task.Containers, containerInput{fmt.Sprintf("c%d", at), requests})
	}
	return task
}
