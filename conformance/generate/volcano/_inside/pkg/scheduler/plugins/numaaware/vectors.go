//go:build go1.23

// What the generator of test vectors needs of this package and is not exported.

package numaaware

import (
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/utils/cpuset"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
)

// VectorsSession is the plugin in one session.
type VectorsSession struct {
	plugin *numaPlugin
	*framework.Session
}

// NewVectorsSession opens a session.
func NewVectorsSession(weight int, nodes map[string]*api.NodeInfo) *VectorsSession {
	plugin := New(framework.Arguments{NumaTopoWeight: weight}).(*numaPlugin)
	session := &framework.Session{Nodes: nodes}
	plugin.OnSessionOpen(session)
	return &VectorsSession{plugin, session}
}

// Assigned is what the predicate chose for a task on a node, if it chose anything.
func (s *VectorsSession) Assigned(task api.TaskID, node string) (api.ResNumaSets, bool) {
	sets, ok := s.plugin.assignRes[task][node]
	return sets, ok
}

// Assign makes a choice as if the predicate had made it.
func (s *VectorsSession) Assign(task api.TaskID, node string, sets api.ResNumaSets) {
	if s.plugin.assignRes[task] == nil {
		s.plugin.assignRes[task] = map[string]api.ResNumaSets{}
	}
	if sets != nil {
		s.plugin.assignRes[task][node] = sets
	}
}

// Free are the free CPUs of a node, if it reports CPUs.
func (s *VectorsSession) Free(node string) (cpuset.CPUSet, bool) {
	free, ok := s.plugin.nodeResSets[node]["cpu"]
	return free, ok
}

// Bound is the node to which a task was bound with CPUs.
func (s *VectorsSession) Bound(task api.TaskID) (string, bool) {
	node, ok := s.plugin.taskBindNodeMap[task]
	return node, ok
}

// VectorsNumaCount is the number of NUMA nodes of some CPUs.
func VectorsNumaCount(cpus cpuset.CPUSet, details topology.CPUDetails) int {
	return getNumaNodeCntForCPUID(cpus, details)
}
