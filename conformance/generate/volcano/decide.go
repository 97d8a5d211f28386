package main

import (
	"k8s.io/utils/cpuset"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/numaaware"
	"volcano.sh/volcano/pkg/scheduler/plugins/numaaware/policy"
	"volcano.sh/volcano/pkg/scheduler/plugins/numaaware/provider/cpumanager"
)

type takeInput struct {
	CPUs      rows  `json:"cpus"`
	Available []int `json:"available"`
	Needed    int   `json:"needed"`
}

func decideTake(in takeInput) (any, error) {
	taken, err := cpumanager.VectorsTake(in.CPUs.details(), cpuset.New(in.Available...), in.Needed)
	if err != nil {
		return answer{"error": err.Error()}, nil
	}
	return answer{"cpus": cpus(taken)}, nil
}

type hintsInput struct {
	CPUs      rows       `json:"cpus"`
	Available sets       `json:"available"`
	Reserved  quantities `json:"reserved"`
	Requests  quantities `json:"requests"`
}

func (in hintsInput) info() *api.NumatopoInfo {
	return &api.NumatopoInfo{CPUDetail: in.CPUs.details(), ResReserved: in.Reserved.list()}
}

func decideHints(in hintsInput) (any, error) {
	hints := cpumanager.NewProvider().GetTopologyHints(container("c0", in.Requests), in.info(), in.Available.sets())
	if hints == nil {
		return answer{"hints": nil}, nil
	}
	found := map[string][]hintInput{}
	for name, list := range hints {
		rows := []hintInput{}
		for _, hint := range list {
			rows = append(rows, hintOf(hint))
		}
		found[name] = rows
	}
	return answer{"hints": found}, nil
}

type allocateInput struct {
	hintsInput
	Hint hintInput `json:"hint"`
}

func decideAllocate(in allocateInput) (any, error) {
	hint := in.Hint.hint()
	assigned := cpumanager.NewProvider().Allocate(container("c0", in.Requests), &hint, in.info(), in.Available.sets())
	return answer{"assign": setsOf(assigned)}, nil
}

type mergeInput struct {
	Policy    string                   `json:"policy"`
	NUMANodes []int                    `json:"numaNodes"`
	Providers []map[string][]hintInput `json:"providers"`
}

var policies = map[string]func([]int) policy.Policy{
	"none":             policy.NewPolicyNone,
	"best-effort":      policy.NewPolicyBestEffort,
	"restricted":       policy.NewPolicyRestricted,
	"single-numa-node": policy.NewPolicySingleNumaNode,
}

func decideMerge(in mergeInput) (any, error) {
	var providers []map[string][]policy.TopologyHint
	for _, rows := range in.Providers {
		var hints map[string][]policy.TopologyHint
		if rows != nil {
			hints = map[string][]policy.TopologyHint{}
		}
		for name, list := range rows {
			var read []policy.TopologyHint
			if list != nil {
				read = []policy.TopologyHint{}
			}
			for _, hint := range list {
				read = append(read, hint.hint())
			}
			hints[name] = read
		}
		providers = append(providers, hints)
	}
	hint, admit := policies[in.Policy](in.NUMANodes).Predicate(providers)
	return answer{"hint": hintOf(hint), "admit": admit}, nil
}

type scoredNode struct {
	Name     string `json:"name"`
	CPUs     rows   `json:"cpus"`
	Assigned []int  `json:"assigned"`
}

type scoreInput struct {
	Nodes  []scoredNode `json:"nodes"`
	Weight int          `json:"weight"`
}

func decideScore(in scoreInput) (any, error) {
	session := numaaware.NewVectorsSession(in.Weight, nil)
	task := &api.TaskInfo{UID: "task", NumaInfo: &api.TopologyInfo{Policy: "best-effort"}}
	var nodes []*api.NodeInfo
	counts := map[string]int{}
	for _, node := range in.Nodes {
		details := node.CPUs.details()
		nodes = append(nodes, &api.NodeInfo{Name: node.Name, NumaSchedulerInfo: &api.NumatopoInfo{CPUDetail: details}})
		var assigned api.ResNumaSets
		if node.Assigned != nil {
			assigned = api.ResNumaSets{"cpu": cpuset.New(node.Assigned...)}
		}
		session.Assign(task.UID, node.Name, assigned)
		counts[node.Name] = numaaware.VectorsNumaCount(cpuset.New(node.Assigned...), details)
	}
	scores, err := session.Order(task, nodes)
	return answer{"numaCount": counts, "scores": scores}, err
}
