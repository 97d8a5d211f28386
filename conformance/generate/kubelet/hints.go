package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"pinfold.dev/generate/kubelet/cadvisor"
	"pinfold.dev/generate/kubelet/call"
)

// hint is a hint of the vectors; a nil mask has no preference.
type hint struct {
	Mask      *[]int `json:"mask"`
	Preferred bool   `json:"preferred"`
}

func (h hint) real() (topologymanager.TopologyHint, error) {
	made := topologymanager.TopologyHint{Preferred: h.Preferred}
	if h.Mask == nil {
		return made, nil
	}
	mask, err := bitmask.NewBitMask(*h.Mask...)
	made.NUMANodeAffinity = mask
	return made, err
}

func shown(h topologymanager.TopologyHint) hint {
	if h.NUMANodeAffinity == nil {
		return hint{Preferred: h.Preferred}
	}
	bits := list(h.NUMANodeAffinity.GetBits())
	return hint{Mask: &bits, Preferred: h.Preferred}
}

// list is never null in JSON.
func list[T any](of []T) []T {
	if of == nil {
		return []T{}
	}
	return of
}

func shownHints(of map[string][]topologymanager.TopologyHint) any {
	if of == nil {
		return nil
	}
	found := map[string]any{}
	for resource, hints := range of {
		if hints == nil {
			found[resource] = nil
			continue
		}
		rows := []hint{}
		for _, h := range hints {
			rows = append(rows, shown(h))
		}
		found[resource] = rows
	}
	return found
}

// fixed is a topology manager that answers every container with one mask, under the named policy.
func fixed(mask *[]int, preferred bool, policy string) (topologymanager.Manager, error) {
	made, err := hint{mask, preferred}.real()
	if err != nil {
		return nil, err
	}
	return topologymanager.VectorsFixed(&made, topologyPolicy(policy, &topologymanager.NUMAInfo{}, topologymanager.PolicyOptions{})), nil
}

func topologyPolicy(name string, info *topologymanager.NUMAInfo, options topologymanager.PolicyOptions) topologymanager.Policy {
	switch name {
	case "best-effort":
		return topologymanager.NewBestEffortPolicy(info, options)
	case "restricted":
		return topologymanager.NewRestrictedPolicy(info, options)
	case "single-numa-node":
		return topologymanager.NewSingleNumaNodePolicy(info, options)
	}
	return topologymanager.NewNonePolicy()
}

type mergeInput struct {
	Policy        string              `json:"policy"`
	PreferClosest bool                `json:"prefer_closest"`
	NUMANodes     []int               `json:"numa_nodes"`
	Distances     [][]uint64          `json:"distances"`
	Providers     []map[string][]hint `json:"providers"`
}

func generateMerge(g *generator) (string, any, error) {
	nodes := pick(g.Rand, 1, 2, 2, 2, 3, 4, 4, 6, 8)
	input := mergeInput{Policy: pick(g.Rand, "none", "best-effort", "best-effort", "restricted", "restricted", "single-numa-node"), PreferClosest: chance(g.Rand, 40)}
	for at := range nodes {
		input.NUMANodes = append(input.NUMANodes, at)
	}
	if input.PreferClosest {
		for at := range nodes {
			row := []uint64{}
			for other := range nodes {
				row = append(row, map[bool]uint64{true: 10, false: uint64(pick(g.Rand, 11, 12, 20, 21, 32))}[at == other])
			}
			input.Distances = append(input.Distances, row)
		}
	}
	budget := 20000
	for _, names := range [][]string{{"example.com/gpu", "example.com/nic"}, {"cpu"}, {"memory", "hugepages-2Mi"}} {
		switch g.IntN(12) {
		case 0:
			input.Providers = append(input.Providers, nil)
			continue
		case 1:
			input.Providers = append(input.Providers, map[string][]hint{})
			continue
		}
		provider := map[string][]hint{}
		for _, name := range names {
			if len(provider) > 0 && chance(g.Rand, 50) {
				continue
			}
			switch g.IntN(16) {
			case 0:
				provider[name] = nil
				continue
			case 1:
				provider[name] = []hint{}
				continue
			}
			hints := randomHints(g.Rand, nodes)
			if budget/len(hints) > 0 {
				budget /= len(hints)
				provider[name] = hints
			}
		}
		input.Providers = append(input.Providers, provider)
	}
	return fmt.Sprintf("%s/%dnuma/closest=%v", input.Policy, nodes, input.PreferClosest), input, nil
}

func randomHints(r *rand.Rand, nodes int) []hint {
	hints := []hint{}
	for range 1 + r.IntN(8) {
		if chance(r, 6) {
			hints = append(hints, hint{Preferred: chance(r, 60)})
			continue
		}
		bits := []int{}
		for at := range nodes {
			if chance(r, 40) {
				bits = append(bits, at)
			}
		}
		if len(bits) == 0 {
			bits = append(bits, r.IntN(nodes))
		}
		hints = append(hints, hint{Mask: &bits, Preferred: chance(r, 45)})
	}
	return hints
}

func decideMerge(_ *world, text json.RawMessage) (any, error) {
	var input mergeInput
	if err := json.Unmarshal(text, &input); err != nil {
		return nil, err
	}
	nodes := []cadvisor.Node{}
	for at, id := range input.NUMANodes {
		node := cadvisor.Node{Id: id}
		if input.Distances != nil {
			node.Distances = input.Distances[at]
		}
		nodes = append(nodes, node)
	}
	options := topologymanager.PolicyOptions{PreferClosestNUMA: input.PreferClosest}
	info, err := topologymanager.NewNUMAInfo(nodes, options)
	if err != nil {
		return nil, err
	}
	var providers []map[string][]topologymanager.TopologyHint
	for _, provider := range input.Providers {
		var made map[string][]topologymanager.TopologyHint
		if provider != nil {
			made = map[string][]topologymanager.TopologyHint{}
		}
		for name, hints := range provider {
			var rows []topologymanager.TopologyHint
			if hints != nil {
				rows = []topologymanager.TopologyHint{}
			}
			for _, h := range hints {
				row, err := h.real()
				if err != nil {
					return nil, err
				}
				rows = append(rows, row)
			}
			made[name] = rows
		}
		providers = append(providers, made)
	}
	results := call.Method(topologyPolicy(input.Policy, info, options), "Merge", providers)
	return map[string]any{"hint": shown(results[0].(topologymanager.TopologyHint)), "admit": results[1]}, nil
}
