package main

import (
	"math/rand/v2"
	"slices"
)

// pick chooses one of several values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// chance is true in so many of a hundred cases.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// machine is a machine: one core after the other, each on the NUMA node and socket after the one before.
type machine struct {
	rows                       [][4]int
	sockets, nodes, cores, smt int
}

// generateMachine makes a machine of at most so many NUMA nodes. In a report cores are numbered inside their socket; the
// scheduler's own number has the socket in its upper half.
func generateMachine(r *rand.Rand, mostNodes int) machine {
	m := machine{sockets: 1 + r.IntN(3), smt: pick(r, 1, 2, 2, 2, 4)}
	perSocket := 1 + r.IntN(max(1, mostNodes/m.sockets))
	for m.sockets*perSocket > mostNodes {
		m.sockets--
	}
	perNode := 1 + r.IntN(8)
	m.nodes = m.sockets * perSocket
	m.cores = m.nodes * perNode
	neighbours := chance(r, 40)
	offline := chance(r, 15)
	for thread := range m.smt {
		for core := range m.cores {
			cpu := thread*m.cores + core
			if neighbours {
				cpu = core*m.smt + thread
			}
			node := core / perNode
			socket := node / perSocket
			if offline && thread > 0 && chance(r, 15) {
				continue
			}
			m.rows = append(m.rows, [4]int{cpu, socket<<16 | core%(perNode*perSocket), node, socket})
		}
	}
	slices.SortFunc(m.rows, func(a, b [4]int) int { return a[0] - b[0] })
	return m
}

func (m machine) topology() topologyInput {
	return topologyInput{CPUs: m.rows, NumCPUs: len(m.rows), NumCores: m.cores, NumNodes: m.nodes, NumSockets: m.sockets}
}

// some are CPUs of the machine, each with a chance of so many in a hundred; often whole cores.
func (m machine) some(r *rand.Rand, percent int) []int {
	chosen := []int{}
	byCore := chance(r, 50)
	cores := map[int]bool{}
	for _, row := range m.rows {
		if _, known := cores[row[1]]; !known {
			cores[row[1]] = chance(r, percent)
		}
		if byCore && cores[row[1]] || !byCore && chance(r, percent) {
			chosen = append(chosen, row[0])
		}
	}
	return chosen
}

// on counts the CPUs of a NUMA node.
func (m machine) on(node int) int {
	count := 0
	for _, row := range m.rows {
		if row[2] == node {
			count++
		}
	}
	return count
}

// few takes up to so many of some CPUs, away from them.
func few(r *rand.Rand, from *[]int, most int) []int {
	taken := []int{}
	for range 1 + r.IntN(max(1, most)) {
		if len(*from) == 0 {
			break
		}
		at := 0
		if chance(r, 30) {
			at = r.IntN(len(*from))
		}
		taken = append(taken, (*from)[at])
		*from = slices.Delete(*from, at, at+1)
	}
	slices.Sort(taken)
	return taken
}
