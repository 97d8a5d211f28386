package main

import (
	"encoding/json"
	"reflect"

	"pinfold.dev/generate/kubelet/call"
)

// discovered is what the CPU manager derives from a machine.
func discovered(m *machine) (json.RawMessage, error) {
	topo, err := m.topology()
	if err != nil {
		return json.Marshal(map[string]any{"error": err.Error()})
	}
	rows := [][]int{}
	for _, cpu := range topo.CPUDetails.CPUs().List() {
		at := topo.CPUDetails[cpu]
		row := []int{cpu, at.CoreID, at.SocketID, at.NUMANodeID}
		if cache := reflect.ValueOf(at).FieldByName("UncoreCacheID"); cache.IsValid() {
			row = append(row, int(cache.Int()))
		}
		rows = append(rows, row)
	}
	found := map[string]any{
		"num_cpus": topo.NumCPUs, "num_cores": topo.NumCores, "num_sockets": topo.NumSockets, "num_numa_nodes": topo.NumNUMANodes,
		"cpus_per_core": topo.CPUsPerCore(), "cpus_per_socket": topo.CPUsPerSocket(), "cpus": rows,
	}
	// Versions before 1.32 do not look at caches.
	if caches := reflect.ValueOf(*topo).FieldByName("NumUncoreCache"); caches.IsValid() {
		found["num_uncore_caches"] = caches.Int()
		found["cpus_per_uncore"] = call.Method(topo, "CPUsPerUncore")[0]
	}
	return json.Marshal(found)
}
