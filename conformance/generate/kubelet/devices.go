package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"pinfold.dev/generate/kubelet/cadvisor"
	"pinfold.dev/generate/kubelet/call"
)

type deviceResource struct {
	Name      string    `json:"name"`
	Preferred string    `json:"preferred_allocation"`
	Devices   []device  `json:"devices"`
	InUse     *[]string `json:"in_use_by_others,omitempty"`
	Reusable  *[]string `json:"reusable,omitempty"`
}

type device struct {
	ID      string   `json:"id"`
	NUMA    *[]int64 `json:"numa"`
	Healthy bool     `json:"healthy"`
}

func (r *deviceResource) register(m *devicemanager.ManagerImpl) {
	made := []devicemanager.VectorsDevice{}
	for _, d := range r.Devices {
		made = append(made, devicemanager.VectorsDevice{ID: d.ID, NUMA: d.NUMA, Healthy: d.Healthy})
	}
	devicemanager.VectorsRegister(m, r.Name, made, preference(r.Preferred))
}

// preference is how the plugin answers GetPreferredAllocation: the devices that must be included, then the first or the
// last of the others.
func preference(name string) func(available, must []string, size int) []string {
	if name == "none" {
		return nil
	}
	return func(available, must []string, size int) []string {
		chosen, rest := slices.Clone(must), slices.Clone(available)
		slices.Sort(rest)
		if name == "last" {
			slices.Reverse(rest)
		}
		for _, id := range rest {
			if len(chosen) < size && !slices.Contains(chosen, id) {
				chosen = append(chosen, id)
			}
		}
		return chosen
	}
}

func (g *generator) deviceResource(name, letter string, nodes []int) deviceResource {
	made := deviceResource{Name: name, Preferred: pick(g.Rand, "none", "first", "last"), Devices: []device{}}
	shape := g.IntN(8)
	for at := range 1 + g.IntN(8) {
		d := device{ID: fmt.Sprintf("%s%02d", letter, at), Healthy: !chance(g.Rand, 8)}
		on := func(ids ...int64) { d.NUMA = &ids }
		switch {
		case shape == 0:
		case shape == 1:
			on()
		case shape == 2:
			on(int64(nodes[0]))
		case shape == 3 && chance(g.Rand, 40) && len(nodes) > 1:
			on(int64(nodes[0]), int64(nodes[1]))
		default:
			on(int64(nodes[at%len(nodes)]))
		}
		made.Devices = append(made.Devices, d)
	}
	return made
}

type deviceHintsInput struct {
	NUMANodes []int                          `json:"numa_nodes"`
	Resources []deviceResource               `json:"resources"`
	Existing  map[string]map[string][]string `json:"existing"`
	Pod       pod                            `json:"pod"`
	Container string                         `json:"allocate_container"`
	Affinity  *[]int                         `json:"affinity"`
}

func generateDeviceHints(g *generator) (string, any, error) {
	input := deviceHintsInput{Existing: map[string]map[string][]string{}}
	for at := range pick(g.Rand, 1, 2, 2, 2, 4, 4, 6) {
		input.NUMANodes = append(input.NUMANodes, at)
	}
	names := []string{"example.com/deva", "example.com/devb"}[:1+g.IntN(2)]
	for at, name := range names {
		made := g.deviceResource(name, string(rune('a'+at)), input.NUMANodes)
		used, left := []string{}, []string{}
		for _, d := range made.Devices {
			switch {
			case chance(g.Rand, 25):
				used = append(used, d.ID)
			case chance(g.Rand, 8) && d.Healthy:
				left = append(left, d.ID)
			}
		}
		made.InUse, made.Reusable = &used, &left
		input.Resources = append(input.Resources, made)
	}
	input.Pod = generatePod(g.Rand, "pod", wish{cpus: 2, memory: 128, devices: names})
	containers := input.Pod.all()
	input.Container = containers[g.IntN(len(containers))].Name
	if chance(g.Rand, 10) {
		held := []string{}
		for _, d := range input.Resources[0].Devices {
			if !slices.Contains(*input.Resources[0].InUse, d.ID) && !slices.Contains(*input.Resources[0].Reusable, d.ID) && chance(g.Rand, 50) {
				held = append(held, d.ID)
			}
		}
		if len(held) > 0 {
			input.Existing[input.Container] = map[string][]string{names[0]: held}
		}
	}
	if chance(g.Rand, 80) {
		bits := []int{}
		for _, node := range input.NUMANodes {
			if chance(g.Rand, 50) {
				bits = append(bits, node)
			}
		}
		input.Affinity = &bits
	}
	return "", input, nil
}

type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

func decideDeviceHints(w *world, text json.RawMessage) (any, error) {
	var input deviceHintsInput
	if err := json.Unmarshal(text, &input); err != nil {
		return nil, err
	}
	object, err := input.Pod.object()
	if err != nil {
		return nil, err
	}
	// Calls during the hints look at the active pods: every pod that holds devices is one.
	other := &v1.Pod{}
	other.UID = "other"
	active := func() []*v1.Pod { return []*v1.Pod{object, other} }
	open := func() (*devicemanager.ManagerImpl, error) {
		affinity, err := fixed(input.Affinity, false, "best-effort")
		if err != nil {
			return nil, err
		}
		nodes := []cadvisor.Node{}
		for _, id := range input.NUMANodes {
			nodes = append(nodes, cadvisor.Node{Id: id})
		}
		dir, err := os.MkdirTemp(w.scratch, "devices")
		if err != nil {
			return nil, err
		}
		m, err := devicemanager.VectorsNew(dir, nodes, affinity, active, ready{})
		if err != nil {
			return nil, err
		}
		os.RemoveAll(dir)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		for at := range input.Resources {
			resource := &input.Resources[at]
			resource.register(m)
			if len(*resource.InUse) > 0 {
				devicemanager.VectorsHold(m, "other", "c0", resource.Name, *resource.InUse)
			}
			if len(*resource.Reusable) > 0 {
				devicemanager.VectorsHold(m, "pod", "prior-init", resource.Name, *resource.Reusable)
			}
			devicemanager.VectorsReusable(m, "pod", resource.Name, *resource.Reusable)
		}
		for container, held := range input.Existing {
			for resource, devices := range held {
				devicemanager.VectorsHold(m, "pod", container, resource, devices)
			}
		}
		return m, nil
	}
	m, err := open()
	if err != nil {
		return nil, err
	}
	hints := map[string]any{}
	for _, c := range input.Pod.all() {
		hints[c.Name] = shownHints(call.Method(m, "GetTopologyHints", object, named(object, c.Name))[0].(map[string][]topologymanager.TopologyHint))
	}
	found := map[string]any{"container_hints": hints}
	found["pod_hints"] = shownHints(call.Method(m, "GetPodTopologyHints", object)[0].(map[string][]topologymanager.TopologyHint))
	filters := map[string]any{}
	for _, resource := range input.Resources {
		available, aligned, unaligned, without := devicemanager.VectorsFilter(m, "pod", input.Container, resource.Name)
		filters[resource.Name] = map[string]any{"available": list(available), "aligned": list(aligned), "unaligned": list(unaligned), "no_affinity": list(without)}
	}
	found["filter"] = filters
	allocated := map[string]any{}
	container := named(object, input.Container)
	for _, resource := range input.Resources {
		amount, ok := container.Resources.Limits[v1.ResourceName(resource.Name)]
		if !ok {
			continue
		}
		devices, err := devicemanager.VectorsChoose(m, "pod", input.Container, resource.Name, int(amount.Value()))
		row := map[string]any{"devices": nil, "error": nil}
		if devices != nil {
			row["devices"] = devices
		}
		if err != nil {
			row["error"] = err.Error()
		}
		allocated[resource.Name] = row
	}
	found["allocate"] = allocated
	return found, nil
}
