//go:build go1.23

// What the generator of test vectors needs of this package and is not exported.

package devicemanager

import (
	"cmp"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"pinfold.dev/generate/kubelet/cadvisor"
	"pinfold.dev/generate/kubelet/call"
)

// vectorsSorted iterates over a map in the order of its keys.
func vectorsSorted[M ~map[K]V, K cmp.Ordered, V any](m M) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if value, ok := m[key]; ok && !yield(key, value) {
				return
			}
		}
	}
}

// VectorsDevice is a device as a plugin reports it. NUMA is nil without topology information.
type VectorsDevice struct {
	ID      string
	NUMA    *[]int64
	Healthy bool
}

// VectorsNew is a device manager whose state is in dir, started without its socket.
func VectorsNew(dir string, nodes []cadvisor.Node, store topologymanager.Store, active func() []*v1.Pod, ready config.SourcesReady) (*ManagerImpl, error) {
	results := call.Func(newManagerImpl, dir+"/kubelet.sock", nodes, store)
	if err := call.Error(results); err != nil {
		return nil, err
	}
	m := results[0].(*ManagerImpl)
	m.activePods = active
	m.sourcesReady = ready
	m.containerMap = containermap.NewContainerMap()
	m.containerRunningSet = sets.New[string]()
	if err := call.Error(call.Func(m.readCheckpoint)); err != nil {
		return nil, err
	}
	return m, nil
}

// VectorsRegister makes a plugin's devices known. preferred is nil if the plugin has no preferences.
func VectorsRegister(m *ManagerImpl, resource string, devices []VectorsDevice, preferred func(available, must []string, size int) []string) {
	options := &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: preferred != nil}
	m.endpoints[resource] = endpointInfo{e: vectorsEndpoint{preferred}, opts: options}
	update := reflect.ValueOf(m.genericDeviceUpdateCallback)
	last := update.Type().In(update.Type().NumIn() - 1)
	list := reflect.MakeSlice(last, 0, len(devices))
	for _, device := range devices {
		made := &pluginapi.Device{ID: device.ID, Health: pluginapi.Unhealthy}
		if device.Healthy {
			made.Health = pluginapi.Healthy
		}
		if device.NUMA != nil {
			made.Topology = &pluginapi.TopologyInfo{}
			for _, node := range *device.NUMA {
				made.Topology.Nodes = append(made.Topology.Nodes, &pluginapi.NUMANode{ID: node})
			}
		}
		value := reflect.ValueOf(made)
		if last.Elem().Kind() != reflect.Pointer {
			value = value.Elem()
		}
		list = reflect.Append(list, value)
	}
	call.Func(m.genericDeviceUpdateCallback, resource, list.Interface())
}

// VectorsHold makes a container the holder of devices.
func VectorsHold(m *ManagerImpl, pod, container, resource string, devices []string) {
	perNode := checkpoint.NewDevicesPerNUMA()
	perNode[nodeWithoutTopology] = devices
	call.Func(m.podDevices.insert, pod, container, resource, perNode, &pluginapi.ContainerAllocateResponse{})
	m.allocatedDevices = m.podDevices.devices()
}

// VectorsReusable are devices that init containers of a pod left.
func VectorsReusable(m *ManagerImpl, pod, resource string, devices []string) {
	if m.devicesToReuse[pod] == nil {
		m.devicesToReuse[pod] = map[string]sets.Set[string]{}
	}
	m.devicesToReuse[pod][resource] = sets.New(devices...)
}

// VectorsFilter sorts the available devices by affinity.
func VectorsFilter(m *ManagerImpl, pod, container, resource string) (available, aligned, unaligned, without []string) {
	free := m.healthyDevices[resource].Difference(m.allocatedDevices[resource])
	results := call.Func(m.filterByAffinity, pod, container, resource, free)
	list := func(at int) []string { return sets.List(results[at].(sets.Set[string])) }
	return sets.List(free), list(0), list(1), list(2)
}

// VectorsChoose chooses devices for a container; nil if there is nothing to do.
func VectorsChoose(m *ManagerImpl, pod, container, resource string, count int) ([]string, error) {
	results := call.Func(m.devicesToAllocate, pod, container, resource, count, m.devicesToReuse[pod][resource])
	chosen := results[0].(sets.Set[string])
	if err := call.Error(results); err != nil || chosen == nil {
		return nil, err
	}
	return sets.List(chosen), nil
}

// VectorsHeld are the devices of a container by resource.
func VectorsHeld(m *ManagerImpl, pod, container string, resources []string) map[string][]string {
	held := map[string][]string{}
	for _, resource := range resources {
		if devices := m.podDevices.containerDevices(pod, container, resource); len(devices) > 0 {
			held[resource] = sets.List(devices)
		}
	}
	return held
}

// VectorsInUse are all assigned devices by resource.
func VectorsInUse(m *ManagerImpl) map[string][]string {
	used := map[string][]string{}
	for resource, devices := range m.allocatedDevices {
		if len(devices) > 0 {
			used[resource] = sets.List(devices)
		}
	}
	return used
}

// vectorsEndpoint is a device plugin that answers at once.
type vectorsEndpoint struct {
	preferred func(available, must []string, size int) []string
}

func (e vectorsEndpoint) prefer(available, must []string, size int) (*pluginapi.PreferredAllocationResponse, error) {
	answer := &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: e.preferred(available, must, size)}
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{answer}}, nil
}

func (e vectorsEndpoint) accept() (*pluginapi.AllocateResponse, error) {
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{}}}, nil
}

func (vectorsEndpoint) setStopTime(time.Time)        {}
func (vectorsEndpoint) isStopped() bool              { return false }
func (vectorsEndpoint) stopGracePeriodExpired() bool { return false }
func (vectorsEndpoint) socketPath() string           { return "" }
