package main

import (
	"fmt"
	"math/rand/v2"

	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"pinfold.dev/generate/kubelet/cadvisor"
	"pinfold.dev/generate/kubelet/call"
)

// machine is the hardware as cAdvisor reports it.
type machine struct {
	ID         string     `json:"id"`
	Style      string     `json:"style"`
	NumCPUs    int        `json:"num_cpus"`
	NumSockets int        `json:"num_sockets"`
	Nodes      []numaNode `json:"nodes"`
}

type numaNode struct {
	ID        int        `json:"id"`
	Memory    uint64     `json:"memory"`
	Hugepages []hugepage `json:"hugepages"`
	Distances []uint64   `json:"distances"`
	Cores     []core     `json:"cores"`
}

type hugepage struct {
	SizeKiB uint64 `json:"size_kib"`
	Count   uint64 `json:"count"`
}

type core struct {
	Core    int   `json:"core"`
	Socket  int   `json:"socket"`
	Uncore  *int  `json:"uncore"`
	Threads []int `json:"threads"`
}

func (m *machine) info() *cadvisor.MachineInfo {
	info := &cadvisor.MachineInfo{NumCores: m.NumCPUs, NumSockets: m.NumSockets}
	for _, node := range m.Nodes {
		made := cadvisor.Node{Id: node.ID, Memory: node.Memory, Distances: node.Distances}
		for _, pages := range node.Hugepages {
			made.HugePages = append(made.HugePages, cadvisor.HugePagesInfo{PageSize: pages.SizeKiB, NumPages: pages.Count})
			info.HugePages = append(info.HugePages, cadvisor.HugePagesInfo{PageSize: pages.SizeKiB, NumPages: pages.Count})
		}
		for _, core := range node.Cores {
			read := cadvisor.Core{Id: core.Core, SocketID: core.Socket, Threads: core.Threads}
			if core.Uncore != nil {
				read.UncoreCaches = []cadvisor.Cache{{Id: *core.Uncore, Level: 3, Type: "Unified"}}
			}
			made.Cores = append(made.Cores, read)
		}
		info.MemoryCapacity += node.Memory
		info.Topology = append(info.Topology, made)
	}
	return info
}

func (m *machine) topology() (*topology.CPUTopology, error) {
	results := call.Func(topology.Discover, m.info())
	found, _ := results[0].(*topology.CPUTopology)
	return found, call.Error(results)
}

// smt is the number of threads of the first core.
func (m *machine) smt() int {
	for _, node := range m.Nodes {
		for _, core := range node.Cores {
			return len(core.Threads)
		}
	}
	return 1
}

// pageSizes are the sizes of hugepages that the machine has: the kubelet crashes if a pod asks for another one.
func (m *machine) pageSizes() []string {
	sizes := []string{}
	for _, pages := range m.Nodes[0].Hugepages {
		sizes = append(sizes, map[uint64]string{2048: "2Mi", 1 << 20: "1Gi"}[pages.SizeKiB])
	}
	return sizes
}

func (m *machine) cpus() []int {
	var all []int
	for _, node := range m.Nodes {
		for _, core := range node.Cores {
			all = append(all, core.Threads...)
		}
	}
	return all
}

// generateMachine makes a machine of a random shape: about one in four has odd NUMA IDs, a node without CPUs or a core
// that is offline.
func generateMachine(r *rand.Rand, id string) *machine {
	sockets := pick(r, 1, 1, 2, 2, 2, 4)
	perSocket := pick(r, 1, 1, 2, 2, 4)
	if sockets*perSocket > 8 {
		perSocket = 2
	}
	cores := pick(r, 1, 2, 3, 4, 4, 6, 8, 10, 16)
	smt := pick(r, 1, 2, 2, 2, 2, 4)
	caches := pick(r, "none", "socket", "numa", "half")
	numbering := pick(r, "offset", "offset", "neighbours", "alternating")
	memoryOnly := chance(r, 12)
	sparse := chance(r, 12)
	offline := 0
	if chance(r, 10) && cores > 2 {
		offline = 1
	}
	numas := sockets * perSocket
	m := &machine{
		ID:         id,
		Style:      fmt.Sprintf("sockets=%d numa=%d cores=%d smt=%d caches=%s numbering=%s memonly=%v sparse=%v offline=%d", sockets, numas, cores, smt, caches, numbering, memoryOnly, sparse, offline),
		NumSockets: sockets,
	}
	memory := uint64(pick(r, 2, 4, 8, 16, 32)) << 30
	// Every node lists the same page sizes, as in Linux.
	sizes := pick(r, []uint64{}, []uint64{2048}, []uint64{2048, 1 << 20})
	total := numas * cores
	for node := range numas {
		made := numaNode{ID: node, Memory: memory + uint64(r.IntN(3))*(64<<20), Hugepages: []hugepage{}, Cores: []core{}}
		if sparse {
			made.ID = node * 2
		}
		for _, size := range sizes {
			made.Hugepages = append(made.Hugepages, hugepage{size, uint64(pick(r, 0, 128, 256)) * 2048 / size})
		}
		socket := node / perSocket
		for at := range cores {
			if at == cores-1 && offline > 0 && node == 0 {
				continue
			}
			number := node*cores + at
			if numbering == "alternating" {
				number = at*numas + node
			}
			physical := core{Core: at, Socket: socket, Threads: []int{}}
			if numbering == "alternating" && socket > 0 {
				physical.Core = at + cores
			}
			for thread := range smt {
				cpu := number + thread*total
				if numbering == "neighbours" {
					cpu = number*smt + thread
				}
				physical.Threads = append(physical.Threads, cpu)
			}
			var cache int
			switch caches {
			case "socket":
				cache = socket
			case "numa":
				cache = node
			case "half":
				cache = node*2 + at/((cores+1)/2)
			}
			if caches != "none" {
				physical.Uncore = &cache
			}
			made.Cores = append(made.Cores, physical)
			m.NumCPUs += smt
		}
		m.Nodes = append(m.Nodes, made)
	}
	if memoryOnly && numas < 8 {
		last := m.Nodes[numas-1].ID
		m.Nodes = append(m.Nodes, numaNode{ID: last + 1, Memory: memory, Hugepages: m.Nodes[0].Hugepages, Cores: []core{}})
	}
	for at := range m.Nodes {
		for other := range m.Nodes {
			distance := uint64(10)
			if at != other {
				distance = uint64(pick(r, 12, 20, 21, 32))
				if at/perSocket == other/perSocket {
					distance = 11
				}
			}
			m.Nodes[at].Distances = append(m.Nodes[at].Distances, distance)
		}
	}
	return m
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }
