//go:build go1.23

// What the generator of test vectors needs of this package and is not exported.

package nodenumaresource

import (
	"context"
	"fmt"

	nrtv1alpha1 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha1"
	topologylister "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/listers/topology/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	fwktype "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/koordinator-sh/koordinator/apis/extension"
	schedulingconfig "github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext/topologymanager"
	"github.com/koordinator-sh/koordinator/pkg/util/cpuset"
)

// Informers and event handlers are not part of the build: the generator adds pods and reports itself.

type vectorsInformers struct{}

func (i vectorsInformers) Topology() vectorsInformers                      { return i }
func (i vectorsInformers) V1alpha1() vectorsInformers                      { return i }
func (i vectorsInformers) NodeResourceTopologies() vectorsInformers        { return i }
func (vectorsInformers) Lister() topologylister.NodeResourceTopologyLister { return nil }
func initNRTInformerFactory(fwktype.Handle) (vectorsInformers, error)      { return vectorsInformers{}, nil }
func registerPodEventHandler(fwktype.Handle, ResourceManager)              {}
func registerNodeResourceTopologyEventHandler(vectorsInformers, TopologyOptionsManager) error {
	return nil
}

// VectorsTake calls the accumulator.
func VectorsTake(topology *CPUTopology, maxRefCount int, available, preferred cpuset.CPUSet, allocated CPUDetails, needed int, bind, exclusive, strategy string) (cpuset.CPUSet, error) {
	return takePreferredCPUs(topology, maxRefCount, available, preferred, allocated, needed, bind, schedulingconfig.CPUExclusivePolicy(exclusive), schedulingconfig.NUMAAllocateStrategy(strategy))
}

// VectorsNode is one node and what its pods hold.
type VectorsNode struct {
	manager *resourceManager
	node    *corev1.Node
	options TopologyOptions
}

// NewVectorsNode is a node without pods.
func NewVectorsNode(node *corev1.Node, strategy string, options TopologyOptions) *VectorsNode {
	topologies := NewTopologyOptionsManager()
	topologies.UpdateTopologyOptions(node.Name, func(own *TopologyOptions) { *own = options })
	manager := &resourceManager{
		numaAllocateStrategy:   schedulingconfig.NUMAAllocateStrategy(strategy),
		topologyOptionsManager: topologies,
		nodeAllocations:        map[string]*NodeAllocation{},
	}
	return &VectorsNode{manager, node, options}
}

// Hold adds a pod.
func (n *VectorsNode) Hold(pod *PodAllocation) { n.manager.Update(n.node.Name, pod) }

// VectorsOptions are the options of an allocation.
type VectorsOptions struct {
	NumCPUsNeeded              int
	RequestCPUBind             bool
	Requests, OriginalRequests corev1.ResourceList
	RequiredCPUBindPolicy      bool
	CPUBindPolicy              string
	CPUExclusivePolicy         string
	Preferred, Preemptible     cpuset.CPUSet
	Reusable, Required         map[int]corev1.ResourceList
	Hint                       topologymanager.NUMATopologyHint
}

func (n *VectorsNode) request(o VectorsOptions) *ResourceOptions {
	return &ResourceOptions{
		numCPUsNeeded:         o.NumCPUsNeeded,
		requestCPUBind:        o.RequestCPUBind,
		requests:              o.Requests,
		originalRequests:      o.OriginalRequests,
		requiredCPUBindPolicy: o.RequiredCPUBindPolicy,
		cpuBindPolicy:         o.CPUBindPolicy,
		cpuExclusivePolicy:    schedulingconfig.CPUExclusivePolicy(o.CPUExclusivePolicy),
		preferredCPUs:         o.Preferred,
		preemptibleCPUs:       o.Preemptible,
		reusableResources:     o.Reusable,
		requiredResources:     o.Required,
		hint:                  o.Hint,
		topologyOptions:       n.options,
	}
}

// Allocate allocates for a pod.
func (n *VectorsNode) Allocate(o VectorsOptions) (*PodAllocation, *fwktype.Status) {
	return n.manager.Allocate(n.node, &corev1.Pod{}, n.request(o))
}

// Hints are the hints for a pod; without weights there is no scorer.
func (n *VectorsNode) Hints(o VectorsOptions, policy, strategy string, weights map[string]int64) (map[string][]topologymanager.NUMATopologyHint, error) {
	request := n.request(o)
	if strategy != "" {
		request.numaScorer = vectorsScorer(strategy, weights)
	}
	return n.manager.GetTopologyHints(n.node, &corev1.Pod{}, request, extension.NUMATopologyPolicy(policy), &nodeReservationRestoreStateData{})
}

func vectorsScorer(strategy string, weights map[string]int64) *resourceAllocationScorer {
	args := &schedulingconfig.NodeNUMAResourceArgs{ScoringStrategy: VectorsStrategy(strategy, weights)}
	return resourceStrategyTypeMap[schedulingconfig.ScoringStrategyType(strategy)](args)
}

// VectorsScore scores amounts.
func VectorsScore(strategy string, weights map[string]int64, requested, allocatable, pod corev1.ResourceList) (int64, error) {
	score, status := vectorsScorer(strategy, weights).score(framework.NewResource(requested), framework.NewResource(allocatable), framework.NewResource(pod))
	return score, status.AsError()
}

// VectorsScheduler is the plugin and one node.
type VectorsScheduler struct {
	*Plugin
	Info *framework.NodeInfo
}

// NewVectorsScheduler makes the plugin for a node with its report, if there is one.
func NewVectorsScheduler(args *schedulingconfig.NodeNUMAResourceArgs, node *corev1.Node, report *nrtv1alpha1.NodeResourceTopology) *VectorsScheduler {
	topologies := NewTopologyOptionsManager()
	if report != nil {
		options := NewTopologyOptions(report)
		topologies.UpdateTopologyOptions(node.Name, func(own *TopologyOptions) { *own = options })
	}
	s := &VectorsScheduler{Info: framework.NewNodeInfo()}
	s.Info.SetNode(node)
	scorer := func(strategy *schedulingconfig.ScoringStrategy) *resourceAllocationScorer {
		return resourceStrategyTypeMap[strategy.Type](args)
	}
	s.Plugin = &Plugin{
		handle:     &vectorsHandle{scheduler: s},
		pluginArgs: args,
		scorer:     scorer(args.ScoringStrategy),
		numaScorer: scorer(args.NUMAScoringStrategy),
		resourceManager: &resourceManager{
			numaAllocateStrategy:   GetDefaultNUMAAllocateStrategy(args),
			topologyOptionsManager: topologies,
			nodeAllocations:        map[string]*NodeAllocation{},
		},
		topologyOptionsManager: topologies,
	}
	return s
}

// vectorsHandle is what the plugin asks of the scheduler: its node, and the topology manager with the plugin as the only
// provider of hints.
type vectorsHandle struct {
	frameworkext.FrameworkExtender
	scheduler *VectorsScheduler
}

func (h *vectorsHandle) GetReservationCache() frameworkext.ReservationCache         { return nil }
func (h *vectorsHandle) GetReservationNominator() frameworkext.ReservationNominator { return nil }
func (h *vectorsHandle) SnapshotSharedLister() fwktype.SharedLister                 { return h }
func (h *vectorsHandle) NodeInfos() fwktype.NodeInfoLister                          { return h }
func (h *vectorsHandle) StorageInfos() fwktype.StorageInfoLister                    { return nil }
func (h *vectorsHandle) List() ([]fwktype.NodeInfo, error) {
	return []fwktype.NodeInfo{h.scheduler.Info}, nil
}
func (h *vectorsHandle) HavePodsWithAffinityList() ([]fwktype.NodeInfo, error) { return nil, nil }
func (h *vectorsHandle) HavePodsWithRequiredAntiAffinityList() ([]fwktype.NodeInfo, error) {
	return nil, nil
}
func (h *vectorsHandle) Get(name string) (fwktype.NodeInfo, error) {
	if name != h.scheduler.Info.Node().Name {
		return nil, fmt.Errorf("no node %q", name)
	}
	return h.scheduler.Info, nil
}

func (h *vectorsHandle) GetNUMATopologyHintProvider() []topologymanager.NUMATopologyHintProvider {
	return []topologymanager.NUMATopologyHintProvider{h.scheduler.Plugin}
}

func (h *vectorsHandle) RunNUMATopologyManagerAdmit(ctx context.Context, cycleState fwktype.CycleState, pod *corev1.Pod, node *corev1.Node, numaNodes []int, policyType extension.NUMATopologyPolicy, exclusivePolicy extension.NumaTopologyExclusive, allNUMANodeStatus []extension.NumaNodeStatus) *fwktype.Status {
	return topologymanager.New(h).Admit(ctx, cycleState, pod, node, numaNodes, policyType, exclusivePolicy, allNUMANodeStatus)
}
