package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
	"pinfold.dev/generate/kubelet/cadvisor"
	"pinfold.dev/generate/kubelet/call"
)

// The families admission and config_errors: a whole node, with the kubelet's own managers.

type scenario struct {
	Topology        string            `json:"topology,omitempty"`
	TopologyPolicy  string            `json:"topology_policy"`
	TopologyScope   string            `json:"topology_scope"`
	TopologyOptions map[string]string `json:"topology_options"`
	CPUPolicy       string            `json:"cpu_policy"`
	CPUOptions      map[string]string `json:"cpu_options"`
	ReservedCPU     string            `json:"reserved_cpu"`
	ReservedCPUs    *string           `json:"reserved_cpus"`
	MemoryPolicy    string            `json:"memory_policy"`
	ReservedMemory  []reservation     `json:"reserved_memory"`
	Devices         []deviceResource  `json:"devices"`
	PodLevel        bool              `json:"pod_level_resource_managers"`
	AlphaOptions    *bool             `json:"cpu_manager_policy_alpha_options,omitempty"`
	NodeCount       int               `json:"numa_node_count,omitempty"`
	Steps           []step            `json:"steps"`
}

type reservation struct {
	NUMA   int               `json:"numa"`
	Limits map[string]string `json:"limits"`
}

type step struct {
	Op  string `json:"op"`
	Pod *pod   `json:"pod,omitempty"`
	UID string `json:"uid,omitempty"`
}

// node is a kubelet as far as its resource managers go.
type node struct {
	scenario *scenario
	machine  *machine
	dir      string
	active   []*v1.Pod
	topology topologymanager.Manager
	cpus     cpumanager.Manager
	memory   memorymanager.Manager
	devices  *devicemanager.ManagerImpl
	started  atomic.Bool
}

// AddSource and AllReady make a node its own list of pod sources: all are ready from the start. The first call comes
// from the CPU manager's reconcile loop, which is ended: the list of active pods would be read while it changes.
func (n *node) AddSource(string) {}
func (n *node) AllReady() bool {
	if n.started.CompareAndSwap(true, false) {
		runtime.Goexit()
	}
	return true
}

func (n *node) pods() []*v1.Pod { return append([]*v1.Pod{}, n.active...) }

// open makes all managers from the state files in the node's folder, in the kubelet's order.
func (n *node) open() (err error) {
	s := n.scenario
	info := n.machine.info()
	results := call.Func(topologymanager.NewManager, info.Topology, s.TopologyPolicy, s.TopologyScope, s.TopologyOptions)
	if err := call.Error(results); err != nil {
		return err
	}
	n.topology = results[0].(topologymanager.Manager)
	reserved := v1.ResourceList{}
	var byNode []kubeletconfig.MemoryReservation
	for _, r := range s.ReservedMemory {
		limits := v1.ResourceList{}
		for name, text := range r.Limits {
			amount, err := resource.ParseQuantity(text)
			if err != nil {
				return err
			}
			limits[v1.ResourceName(name)] = amount
			sum := reserved[v1.ResourceName(name)]
			sum.Add(amount)
			reserved[v1.ResourceName(name)] = sum
		}
		byNode = append(byNode, kubeletconfig.MemoryReservation{NumaNode: int32(r.NUMA), Limits: limits})
	}
	if reserved[v1.ResourceCPU], err = resource.ParseQuantity(s.ReservedCPU); err != nil {
		return err
	}
	explicit := cpuset.New()
	if s.ReservedCPUs != nil {
		if explicit, err = cpuset.Parse(*s.ReservedCPUs); err != nil {
			return err
		}
	}
	if n.devices, err = devicemanager.VectorsNew(n.dir, info.Topology, n.topology, n.pods, n); err != nil {
		return err
	}
	results = call.Func(cpumanager.NewManager, s.CPUPolicy, s.CPUOptions, time.Hour, info, explicit, reserved, n.dir, n.topology)
	if err := call.Error(results); err != nil {
		return err
	}
	n.cpus = results[0].(cpumanager.Manager)
	results = call.Func(memorymanager.NewManager, s.MemoryPolicy, info, reserved, byNode, n.dir, n.topology)
	if err := call.Error(results); err != nil {
		return err
	}
	n.memory = results[0].(memorymanager.Manager)
	for _, provider := range []any{n.devices, n.cpus, n.memory} {
		call.Method(n.topology, "AddHintProvider", provider)
	}
	n.started.Store(s.CPUPolicy == "static")
	if err := call.Error(call.Method(n.cpus, "Start", n.pods, n, nil, nil, containermap.NewContainerMap())); err != nil {
		n.started.Store(false)
		return err
	}
	for n.started.Load() {
		time.Sleep(10 * time.Microsecond)
	}
	if err := call.Error(call.Method(n.memory, "Start", n.pods, n, nil, nil, containermap.NewContainerMap())); err != nil {
		return err
	}
	for at := range s.Devices {
		s.Devices[at].register(n.devices)
	}
	return nil
}

func (n *node) admit(object *v1.Pod) map[string]any {
	attributes := &lifecycle.PodAdmitAttributes{Pod: object, OtherPods: n.pods()}
	if operation := reflect.ValueOf(attributes).Elem().FieldByName("Operation"); operation.IsValid() {
		operation.SetString("add")
	}
	answer := call.Method(n.topology, "Admit", attributes)[0].(lifecycle.PodAdmitResult)
	found := map[string]any{"uid": string(object.UID), "admit": answer.Admit, "reason": answer.Reason, "message": answer.Message}
	if !answer.Admit {
		for at, pod := range n.active {
			if pod.UID == object.UID {
				n.active = append(n.active[:at:at], n.active[at+1:]...)
				break
			}
		}
		return found
	}
	containers := map[string]any{}
	for _, group := range [][]v1.Container{object.Spec.InitContainers, object.Spec.Containers} {
		for _, c := range group {
			affinity := call.Method(n.topology, "GetAffinity", string(object.UID), c.Name)[0].(topologymanager.TopologyHint)
			held := map[string]any{"affinity": shown(affinity), "cpus": nil, "memory": nil, "devices": n.held(object, c.Name)}
			if cpus, ok := n.cpus.State().GetCPUSet(string(object.UID), c.Name); ok {
				held["cpus"] = cpus.String()
			}
			if n.scenario.MemoryPolicy == "Static" {
				if blocks := n.memory.State().GetMemoryBlocks(string(object.UID), c.Name); blocks != nil {
					held["memory"] = shownBlocks(blocks)
				}
			}
			containers[c.Name] = held
		}
	}
	found["containers"] = containers
	return found
}

func (n *node) held(object *v1.Pod, container string) map[string][]string {
	names := []string{}
	for _, r := range n.scenario.Devices {
		names = append(names, r.Name)
	}
	return devicemanager.VectorsHeld(n.devices, string(object.UID), container, names)
}

func (n *node) cleanUp() {
	cpumanager.VectorsCleanUp(n.cpus)
	memorymanager.VectorsCleanUp(n.memory)
	call.Method(n.devices, "UpdateAllocatedDevices")
}

func (n *node) picture(into map[string]any) map[string]any {
	into["default_cpuset"] = n.cpus.State().GetDefaultCPUSet().String()
	if n.scenario.MemoryPolicy == "Static" {
		into["memory_state"] = machineState(n.memory.State())
	}
	into["devices_in_use"] = devicemanager.VectorsInUse(n.devices)
	return into
}

// take runs one step; last is whether the sequence ends with it.
func (n *node) take(s step) (found map[string]any, last bool, err error) {
	found = map[string]any{}
	index := func(uid string) int {
		for at, pod := range n.active {
			if string(pod.UID) == uid {
				return at
			}
		}
		return -1
	}
	switch s.Op {
	case "add":
		object, err := s.Pod.object()
		if err != nil {
			return nil, true, err
		}
		n.active = append(n.active, object)
		if end := guarded(func() { found["admit"] = n.admit(object) }); end != nil {
			return end, true, nil
		}
	case "remove":
		if at := index(s.UID); at >= 0 {
			n.active = append(n.active[:at:at], n.active[at+1:]...)
		}
	case "start":
		if at := index(s.UID); at >= 0 {
			object := n.active[at]
			for _, group := range [][]v1.Container{object.Spec.InitContainers, object.Spec.Containers} {
				for number := range group {
					c := &group[number]
					id := s.UID + "-" + c.Name
					call.Method(n.cpus, "AddContainer", object, c, id)
					call.Method(n.memory, "AddContainer", object, c, id)
					call.Method(n.topology, "AddContainer", object, c, id)
				}
			}
		}
	case "restart":
		var err error
		if end := guarded(func() { err = n.open() }); end != nil {
			return end, true, nil
		}
		if err != nil {
			return map[string]any{"start_error": err.Error(), "default_cpuset": "", "devices_in_use": nil}, true, nil
		}
		decisions := []any{}
		end := guarded(func() {
			for _, object := range n.pods() {
				decisions = append(decisions, n.admit(object))
			}
		})
		if end != nil {
			return end, true, nil
		}
		if len(decisions) > 0 {
			found["readmit"] = decisions
		}
	}
	n.cleanUp()
	return n.picture(found), false, nil
}

func decideAdmission(w *world, text json.RawMessage) (any, error) {
	found, n, err := play(w, text)
	if n != nil {
		os.RemoveAll(n.dir)
	}
	return found, err
}

func play(w *world, text json.RawMessage) (map[string]any, *node, error) {
	s := &scenario{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, nil, err
	}
	m, ok := w.machines[s.Topology]
	if !ok {
		return nil, nil, fmt.Errorf("no machine %q", s.Topology)
	}
	gates := map[string]bool{"PodLevelResourceManagers": s.PodLevel}
	if s.AlphaOptions != nil {
		gates["CPUManagerPolicyAlphaOptions"] = *s.AlphaOptions
	}
	setGates(gates)
	defer setGates(map[string]bool{"PodLevelResourceManagers": false, "CPUManagerPolicyAlphaOptions": true})
	dir, err := os.MkdirTemp(w.scratch, "node")
	if err != nil {
		return nil, nil, err
	}
	n := &node{scenario: s, machine: m, dir: dir}
	var refused error
	if end := guarded(func() { refused = n.open() }); end != nil {
		end["init_error"] = nil
		return end, n, nil
	}
	if refused != nil {
		return map[string]any{"init_error": refused.Error(), "steps": []any{}}, n, nil
	}
	found := map[string]any{"init_error": nil, "initial": n.picture(map[string]any{})}
	if s.CPUPolicy == "static" {
		found["reserved_cpuset"] = cpumanager.VectorsReservedOf(n.cpus).String()
	}
	steps := []any{}
	for _, next := range s.Steps {
		taken, last, err := n.take(next)
		if err != nil {
			return nil, n, err
		}
		steps = append(steps, taken)
		if last {
			break
		}
	}
	found["steps"] = steps
	return found, n, nil
}

func generateAdmission(g *generator) (string, any, error) { return g.admission(false) }

func generateAdmissionPodLevel(g *generator) (string, any, error) { return g.admission(true) }

func (g *generator) admission(podLevel bool) (string, any, error) {
	m := g.machine()
	for chance(g.Rand, 80) && len(m.cpus()) < 4 {
		m = g.machine()
	}
	s := g.settings(m)
	s.PodLevel = podLevel
	names := []string{}
	for _, d := range s.Devices {
		names = append(names, d.Name)
	}
	per := max(1, len(m.cpus())/len(m.Nodes))
	mebibytes := int(m.Nodes[0].Memory >> 20)
	w := wish{cpus: pick(g.Rand, 2, 4, per, per+2), memory: pick(g.Rand, 512, mebibytes/4, mebibytes), hugepages: m.pageSizes(), devices: names}
	w.podLevel = podLevel || (hasGate("PodLevelResources") && chance(g.Rand, 10))
	alive := []string{}
	for at := range 3 + g.IntN(8) {
		uid := fmt.Sprintf("p%d", at)
		made := generatePod(g.Rand, uid, w)
		s.Steps = append(s.Steps, step{Op: "add", Pod: &made})
		alive = append(alive, uid)
		if chance(g.Rand, 40) {
			s.Steps = append(s.Steps, step{Op: "start", UID: uid})
		}
		if chance(g.Rand, 25) {
			gone := g.IntN(len(alive))
			s.Steps = append(s.Steps, step{Op: "remove", UID: alive[gone]})
			alive = append(alive[:gone], alive[gone+1:]...)
		}
		if chance(g.Rand, 10) {
			s.Steps = append(s.Steps, step{Op: "restart"})
		}
	}
	if g.merges > 0 && s.combinations(len(m.Nodes)) > g.merges {
		return g.admission(podLevel)
	}
	return s.TopologyPolicy + "/" + s.TopologyScope, s, nil
}

// combinations is how many combinations of hints the kubelet merges at most: it tries each one, so that eight NUMA nodes
// and five resources take days.
func (s *scenario) combinations(nodes int) uint64 {
	if s.TopologyPolicy == "none" {
		return 0
	}
	sum := 0.0
	for _, step := range s.Steps {
		if step.Pod == nil {
			continue
		}
		asked := map[string]bool{}
		for _, c := range step.Pod.all() {
			own := map[string]bool{}
			for resource := range c.Requests {
				own[resource], asked[resource] = true, true
			}
			sum += math.Pow(math.Exp2(float64(nodes)), float64(len(own)))
		}
		if s.TopologyScope == "pod" {
			sum += math.Pow(math.Exp2(float64(nodes)), float64(len(asked)))
		}
	}
	return uint64(min(sum, 1e18))
}

// settings are those of a node that mostly starts.
func (g *generator) settings(m *machine) *scenario {
	s := &scenario{
		Topology:        m.ID,
		TopologyPolicy:  pick(g.Rand, "none", "best-effort", "best-effort", "restricted", "single-numa-node", "single-numa-node"),
		TopologyScope:   pick(g.Rand, "container", "pod"),
		TopologyOptions: g.topologyOptions(),
		CPUPolicy:       pick(g.Rand, "static", "static", "static", "static", "none"),
		CPUOptions:      map[string]string{},
		ReservedCPU:     pick(g.Rand, "1", "1", "2", "500m"),
		MemoryPolicy:    pick(g.Rand, "Static", "Static", "None"),
		ReservedMemory:  []reservation{},
		Devices:         []deviceResource{},
		Steps:           []step{},
	}
	if s.CPUPolicy == "static" {
		s.CPUOptions = g.cpuOptions()
	}
	if s.MemoryPolicy == "Static" {
		for _, node := range m.Nodes {
			if chance(g.Rand, 70) || node.ID == m.Nodes[0].ID {
				s.ReservedMemory = append(s.ReservedMemory, reservation{node.ID, map[string]string{"memory": fmt.Sprintf("%dMi", pick(g.Rand, 64, 256, 512))}})
			}
		}
	}
	nodes := []int{}
	for _, node := range m.Nodes {
		nodes = append(nodes, node.ID)
	}
	for at, name := range []string{"example.com/gpu", "example.com/nic"}[:pick(g.Rand, 0, 1, 1, 2)] {
		s.Devices = append(s.Devices, g.deviceResource(name, []string{"g", "n"}[at], nodes))
	}
	return s
}

func generateConfigErrors(g *generator) (string, any, error) {
	if chance(g.Rand, 20) {
		options := map[string]string{}
		if chance(g.Rand, 60) {
			options["max-allowable-numa-nodes"] = pick(g.Rand, "8", "9", "16", "64", "7", "0", "-1", "many", "")
		}
		return "numa-limit", map[string]any{"numa_node_count": pick(g.Rand, 1, 8, 9, 10, 16, 17), "topology_options": options, "topology_policy": pick(g.Rand, "none", "best-effort", "restricted")}, nil
	}
	m := g.machine()
	s := g.settings(m)
	tag := ""
	switch g.IntN(8) {
	case 0:
		s.TopologyPolicy = pick(g.Rand, "strict", "", "preferred", "None")
	case 1:
		s.TopologyScope = pick(g.Rand, "node", "", "Pod")
	case 2:
		s.TopologyOptions = map[string]string{pick(g.Rand, "prefer-closest-numa-nodes", "max-allowable-numa-nodes", "unknown"): pick(g.Rand, "true", "yes", "8", "")}
	case 3:
		s.CPUPolicy = pick(g.Rand, "dynamic", "", "Static")
	case 4:
		s.CPUPolicy = pick(g.Rand, "static", "none")
		s.CPUOptions = map[string]string{pick(g.Rand, append([]string{"unknown"}, allCPUOptions...)...): pick(g.Rand, "true", "true", "maybe", "0")}
		off := false
		if chance(g.Rand, 50) {
			s.AlphaOptions, tag = &off, "alpha-options-gate-off"
		}
	case 5:
		s.ReservedCPU = pick(g.Rand, "0", "100", "1", "1500m")
		text := pick(g.Rand, "0", "0-1", "900", "")
		s.ReservedCPUs = &text
	case 6:
		s.MemoryPolicy = pick(g.Rand, "static", "BestEffort", "", "None")
	case 7:
		s.MemoryPolicy = "Static"
		s.ReservedMemory = []reservation{}
		for range g.IntN(4) {
			s.ReservedMemory = append(s.ReservedMemory, reservation{g.IntN(5), map[string]string{pick(g.Rand, "memory", "memory", "hugepages-2Mi", "cpu"): pick(g.Rand, "0", "64Mi", "3Ti", "100m")}})
		}
	}
	return tag, s, nil
}

func decideConfigErrors(w *world, text json.RawMessage) (any, error) {
	var limit scenario
	if err := json.Unmarshal(text, &limit); err != nil {
		return nil, err
	}
	if limit.NodeCount > 0 {
		var nodes []cadvisor.Node
		for id := range limit.NodeCount {
			nodes = append(nodes, cadvisor.Node{Id: id, Distances: make([]uint64, limit.NodeCount)})
		}
		results := call.Func(topologymanager.NewManager, nodes, limit.TopologyPolicy, "container", limit.TopologyOptions)
		if err := call.Error(results); err != nil {
			return map[string]any{"init_error": err.Error()}, nil
		}
		return map[string]any{"init_error": nil}, nil
	}
	found, n, err := play(w, text)
	if n != nil {
		os.RemoveAll(n.dir)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"init_error": found["init_error"]}, nil
}
