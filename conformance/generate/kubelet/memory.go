package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"pinfold.dev/generate/kubelet/call"
)

type memoryInput struct {
	Topology       string                    `json:"topology"`
	SystemReserved map[int]map[string]uint64 `json:"system_reserved"`
	Steps          []memoryStep              `json:"steps"`
}

type memoryStep struct {
	Op        string `json:"op"`
	Pod       *pod   `json:"pod,omitempty"`
	PodUID    string `json:"pod_uid,omitempty"`
	Container string `json:"container,omitempty"`
	Affinity  *[]int `json:"affinity"`
	Preferred bool   `json:"preferred"`
}

func generateMemory(g *generator) (string, any, error) {
	m := g.machine()
	input := memoryInput{Topology: m.ID, SystemReserved: map[int]map[string]uint64{}}
	for at, node := range m.Nodes {
		// A policy without any reservation does not start.
		if at == 0 || chance(g.Rand, 70) {
			input.SystemReserved[node.ID] = map[string]uint64{"memory": uint64(pick(g.Rand, 64, 64, 256, 512)) << 20}
		}
	}
	mebibytes := int(m.Nodes[0].Memory >> 20)
	for at := range 2 + g.IntN(5) {
		uid := fmt.Sprintf("p%d", at)
		made := generatePod(g.Rand, uid, wish{cpus: 4, memory: pick(g.Rand, mebibytes/8, mebibytes/2, mebibytes*3/2), hugepages: m.pageSizes()})
		first := true
		step := func(op, container string) {
			next := memoryStep{Op: op, PodUID: uid, Container: container}
			if first {
				next.Pod, next.PodUID, first = &made, "", false
			}
			if op == "allocate" {
				next.Affinity, next.Preferred = g.mask(m), chance(g.Rand, 50)
				if next.Affinity != nil && len(*next.Affinity) == 0 {
					next.Affinity = nil
				}
			}
			input.Steps = append(input.Steps, next)
		}
		if chance(g.Rand, 50) {
			step("pod_hints", "")
		}
		for _, c := range made.all() {
			if chance(g.Rand, 70) {
				step("hints", c.Name)
			}
			step("allocate", c.Name)
		}
		if chance(g.Rand, 30) {
			for _, c := range made.all() {
				step("remove", c.Name)
			}
		}
	}
	return "", input, nil
}

func decideMemory(w *world, text json.RawMessage) (any, error) {
	var input memoryInput
	if err := json.Unmarshal(text, &input); err != nil {
		return nil, err
	}
	m, ok := w.machines[input.Topology]
	if !ok {
		return nil, fmt.Errorf("no machine %q", input.Topology)
	}
	reserved := map[int]map[v1.ResourceName]uint64{}
	for _, node := range m.Nodes {
		reserved[node.ID] = map[v1.ResourceName]uint64{}
		for resource, amount := range input.SystemReserved[node.ID] {
			reserved[node.ID][v1.ResourceName(resource)] = amount
		}
	}
	answer := &topologymanager.TopologyHint{}
	policy, err := memorymanager.VectorsStatic(m.info(), reserved, topologymanager.VectorsFixed(answer, topologymanager.NewNonePolicy()))
	if err != nil {
		return nil, err
	}
	memory := call.Func(state.NewMemoryState)[0].(state.State)
	if err := call.Error(call.Method(policy, "Start", memory)); err != nil {
		return nil, err
	}
	pods := map[string]*v1.Pod{}
	results := []any{map[string]any{"machine_state": machineState(memory)}}
	for _, step := range input.Steps {
		if step.Pod != nil {
			if pods[step.Pod.UID], err = step.Pod.object(); err != nil {
				return nil, err
			}
			step.PodUID = step.Pod.UID
		}
		object := pods[step.PodUID]
		container := named(object, step.Container)
		switch step.Op {
		case "hints":
			hints := call.Method(policy, "GetTopologyHints", memory, object, container)
			results = append(results, map[string]any{"hints": shownHints(hints[0].(map[string][]topologymanager.TopologyHint))})
		case "pod_hints":
			hints := call.Method(policy, "GetPodTopologyHints", memory, object)
			results = append(results, map[string]any{"hints": shownHints(hints[0].(map[string][]topologymanager.TopologyHint))})
		case "remove":
			call.Method(policy, "RemoveContainer", memory, step.PodUID, step.Container)
			results = append(results, map[string]any{"machine_state": machineState(memory)})
		case "allocate":
			if *answer, err = (hint{step.Affinity, step.Preferred}).real(); err != nil {
				return nil, err
			}
			var refused error
			end := guarded(func() { refused = call.Error(call.Method(policy, "Allocate", memory, object, container)) })
			if end != nil {
				results = append(results, end)
				return map[string]any{"results": results}, nil
			}
			blocks := map[string]any{}
			for name, held := range memory.GetMemoryAssignments()[step.PodUID] {
				blocks[name] = shownBlocks(held)
			}
			found := map[string]any{"error": nil, "blocks": blocks, "machine_state": machineState(memory)}
			if refused != nil {
				found["error"] = refused.Error()
			}
			results = append(results, found)
		}
	}
	return map[string]any{"results": results}, nil
}

type block struct {
	Type string `json:"type"`
	Size uint64 `json:"size"`
	NUMA []int  `json:"numa"`
}

func shownBlocks(of []state.Block) []block {
	rows := []block{}
	for _, b := range of {
		rows = append(rows, block{string(b.Type), b.Size, list(b.NUMAAffinity)})
	}
	slices.SortStableFunc(rows, func(a, b block) int { return strings.Compare(a.Type, b.Type) })
	return rows
}

func machineState(memory state.Reader) []any {
	machine := memory.GetMachineState()
	ids := []int{}
	for id := range machine {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	rows := []any{}
	for _, id := range ids {
		node := machine[id]
		amounts := map[string][]uint64{}
		for resource, table := range node.MemoryMap {
			amounts[string(resource)] = []uint64{table.Allocatable, table.Reserved, table.Free}
		}
		rows = append(rows, map[string]any{"node": id, "assignments": node.NumberOfAssignments, "cells": list(node.Cells), "memory": amounts})
	}
	return rows
}
