package main

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwktype "k8s.io/kube-scheduler/framework"

	"github.com/koordinator-sh/koordinator/apis/extension"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext/topologymanager"
	numa "github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/nodenumaresource"
	"github.com/koordinator-sh/koordinator/pkg/util/cpuset"
)

type answer map[string]any

type amplifyInput struct {
	Origin int64   `json:"origin"`
	Ratio  float64 `json:"ratio"`
}

func decideAmplify(in amplifyInput) (any, error) {
	return answer{"value": extension.Amplify(in.Origin, extension.Ratio(in.Ratio))}, nil
}

type scoreInput struct {
	Strategy    string           `json:"strategy"`
	Weights     map[string]int64 `json:"weights"`
	Allocatable amounts          `json:"allocatable"`
	Requested   amounts          `json:"requested"`
	PodRequests amounts          `json:"podRequests"`
}

func decideScore(in scoreInput) (any, error) {
	score, err := numa.VectorsScore(in.Strategy, in.Weights, in.Requested.list(), in.Allocatable.list(), in.PodRequests.list())
	return answer{"score": score}, err
}

type heldCPU struct {
	CPU       int    `json:"cpu"`
	Core      int    `json:"core"`
	Node      int    `json:"node"`
	Socket    int    `json:"socket"`
	RefCount  int    `json:"refCount"`
	Exclusive string `json:"exclusive"`
}

type takeInput struct {
	Topology        topologyInput `json:"topology"`
	MaxRefCount     int           `json:"maxRefCount"`
	Available       []int         `json:"available"`
	Preferred       []int         `json:"preferred"`
	Allocated       []heldCPU     `json:"allocated"`
	Needed          int           `json:"needed"`
	BindPolicy      string        `json:"bindPolicy"`
	ExclusivePolicy string        `json:"exclusivePolicy"`
	NUMAStrategy    string        `json:"numaStrategy"`
}

func decideTake(in takeInput) (any, error) {
	held := numa.NewCPUDetails()
	for _, cpu := range in.Allocated {
		held[cpu.CPU] = numa.CPUInfo{
			CPUID: cpu.CPU, CoreID: cpu.Core, NodeID: cpu.Node, SocketID: cpu.Socket,
			RefCount: cpu.RefCount, ExclusivePolicy: extension.CPUExclusivePolicy(cpu.Exclusive),
		}
	}
	taken, err := numa.VectorsTake(in.Topology.topology(), in.MaxRefCount, cpuset.NewCPUSet(in.Available...),
		cpuset.NewCPUSet(in.Preferred...), held, in.Needed, in.BindPolicy, in.ExclusivePolicy, in.NUMAStrategy)
	if err != nil {
		return answer{"error": err.Error()}, nil
	}
	return answer{"cpus": cpus(taken)}, nil
}

type mergeInput struct {
	Policy          string                   `json:"policy"`
	NUMANodes       []int                    `json:"numaNodes"`
	Providers       []map[string][]hintInput `json:"providers"`
	ExclusivePolicy string                   `json:"exclusivePolicy"`
	NUMANodeStatus  []string                 `json:"numaNodeStatus"`
}

var policies = map[string]extension.NUMATopologyPolicy{
	"none":             extension.NUMATopologyPolicyNone,
	"best-effort":      extension.NUMATopologyPolicyBestEffort,
	"restricted":       extension.NUMATopologyPolicyRestricted,
	"single-numa-node": extension.NUMATopologyPolicySingleNUMANode,
}

func decideMerge(in mergeInput) (any, error) {
	var providers []map[string][]topologymanager.NUMATopologyHint
	for _, rows := range in.Providers {
		var hints map[string][]topologymanager.NUMATopologyHint
		if rows != nil {
			hints = map[string][]topologymanager.NUMATopologyHint{}
		}
		for name, list := range rows {
			var read []topologymanager.NUMATopologyHint
			if list != nil {
				read = []topologymanager.NUMATopologyHint{}
			}
			for _, hint := range list {
				read = append(read, hint.hint())
			}
			hints[name] = read
		}
		providers = append(providers, hints)
	}
	var status []extension.NumaNodeStatus
	for _, one := range in.NUMANodeStatus {
		status = append(status, extension.NumaNodeStatus(one))
	}
	policy := topologymanager.VectorsPolicy(policies[in.Policy], in.NUMANodes)
	hint, admit, reasons := policy.Merge(providers, extension.NumaTopologyExclusive(in.ExclusivePolicy), status)
	return answer{"hint": hintOf(hint), "admit": admit, "reasons": inOrder(reasons)}, nil
}

// inOrder are reasons in alphabetical order: the original has them in the order of a map.
func inOrder(reasons []string) []string {
	reasons = append([]string{}, reasons...)
	slices.Sort(reasons)
	return reasons
}

type heldPod struct {
	UID               string   `json:"uid"`
	CPUSet            []int    `json:"cpuset"`
	ExclusivePolicy   string   `json:"exclusivePolicy"`
	NUMANodeResources []onNode `json:"numaNodeResources"`
}

// nodeInput is a node and what its pods hold.
type nodeInput struct {
	Topology            topologyInput      `json:"topology"`
	ReservedCPUs        []int              `json:"reservedCPUs"`
	MaxRefCount         int                `json:"maxRefCount"`
	NUMANodeResources   []onNode           `json:"numaNodeResources"`
	AmplificationRatios map[string]float64 `json:"amplificationRatios"`
	NUMAStrategy        string             `json:"numaStrategy"`
	Pods                []heldPod          `json:"pods"`
}

func (in nodeInput) node() *numa.VectorsNode {
	ratios := map[corev1.ResourceName]extension.Ratio{}
	for name, ratio := range in.AmplificationRatios {
		ratios[corev1.ResourceName(name)] = extension.Ratio(ratio)
	}
	node := numa.NewVectorsNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, in.NUMAStrategy, numa.TopologyOptions{
		CPUTopology:         in.Topology.topology(),
		ReservedCPUs:        cpuset.NewCPUSet(in.ReservedCPUs...),
		MaxRefCount:         in.MaxRefCount,
		NUMANodeResources:   resourcesOf(in.NUMANodeResources),
		AmplificationRatios: ratios,
	})
	for _, pod := range in.Pods {
		node.Hold(&numa.PodAllocation{
			UID: types.UID(pod.UID), CPUSet: cpuset.NewCPUSet(pod.CPUSet...),
			CPUExclusivePolicy: extension.CPUExclusivePolicy(pod.ExclusivePolicy), NUMANodeResources: resourcesOf(pod.NUMANodeResources),
		})
	}
	return node
}

type optionsInput struct {
	NumCPUsNeeded         int        `json:"numCPUsNeeded"`
	RequestCPUBind        bool       `json:"requestCPUBind"`
	Requests              amounts    `json:"requests"`
	OriginalRequests      amounts    `json:"originalRequests"`
	RequiredCPUBindPolicy bool       `json:"requiredCPUBindPolicy"`
	CPUBindPolicy         string     `json:"cpuBindPolicy"`
	CPUExclusivePolicy    string     `json:"cpuExclusivePolicy"`
	PreferredCPUs         []int      `json:"preferredCPUs,omitempty"`
	PreemptibleCPUs       []int      `json:"preemptibleCPUs,omitempty"`
	ReusableResources     []onNode   `json:"reusableResources,omitempty"`
	RequiredResources     []onNode   `json:"requiredResources,omitempty"`
	Hint                  *hintInput `json:"hint,omitempty"`
}

func (o optionsInput) options() numa.VectorsOptions {
	options := numa.VectorsOptions{
		NumCPUsNeeded: o.NumCPUsNeeded, RequestCPUBind: o.RequestCPUBind,
		Requests: o.Requests.list(), OriginalRequests: o.OriginalRequests.list(),
		RequiredCPUBindPolicy: o.RequiredCPUBindPolicy, CPUBindPolicy: o.CPUBindPolicy,
		CPUExclusivePolicy: o.CPUExclusivePolicy,
		Preferred:          cpuset.NewCPUSet(o.PreferredCPUs...), Preemptible: cpuset.NewCPUSet(o.PreemptibleCPUs...),
		Reusable: byNode(o.ReusableResources), Required: byNode(o.RequiredResources),
	}
	if o.Hint != nil {
		options.Hint = o.Hint.hint()
	}
	return options
}

type allocateInput struct {
	nodeInput
	Options optionsInput `json:"options"`
}

func decideAllocate(in allocateInput) (any, error) {
	allocation, status := in.node().Allocate(in.Options.options())
	if !status.IsSuccess() {
		return answer{"code": status.Code().String(), "reasons": inOrder(status.Reasons())}, nil
	}
	return answer{
		"code": fwktype.Success.String(), "cpuset": cpus(allocation.CPUSet),
		"numaNodeResources": partsOf(allocation.NUMANodeResources),
	}, nil
}

type scorerInput struct {
	Type    string           `json:"type"`
	Weights map[string]int64 `json:"weights"`
}

type hintsInput struct {
	nodeInput
	Options    optionsInput `json:"options"`
	Policy     string       `json:"policy"`
	NUMAScorer *scorerInput `json:"numaScorer"`
}

func decideHints(in hintsInput) (any, error) {
	scorer := scorerInput{}
	if in.NUMAScorer != nil {
		scorer = *in.NUMAScorer
	}
	hints, err := in.node().Hints(in.Options.options(), in.Policy, scorer.Type, scorer.Weights)
	if err != nil {
		return answer{"error": err.Error()}, nil
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
