package main

import (
	"context"

	topologyv1alpha2 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	plugin "sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"
)

type answer map[string]any

// quantities are amounts as text.
type quantities map[string]string

func (q quantities) list() corev1.ResourceList {
	if q == nil {
		return nil
	}
	list := corev1.ResourceList{}
	for name, text := range q {
		list[corev1.ResourceName(name)] = resource.MustParse(text)
	}
	return list
}

type attributeInput struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type costInput struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

type resourceInput struct {
	Name        string `json:"name"`
	Capacity    string `json:"capacity"`
	Allocatable string `json:"allocatable"`
	Available   string `json:"available"`
}

type zoneInput struct {
	Name      string          `json:"name"`
	Type      string          `json:"type"`
	Costs     []costInput     `json:"costs"`
	Resources []resourceInput `json:"resources"`
}

type reportInput struct {
	TopologyPolicies []string         `json:"topologyPolicies"`
	Attributes       []attributeInput `json:"attributes"`
	Zones            []zoneInput      `json:"zones"`
}

func (r *reportInput) report() *topologyv1alpha2.NodeResourceTopology {
	if r == nil {
		return nil
	}
	report := &topologyv1alpha2.NodeResourceTopology{ObjectMeta: metav1.ObjectMeta{Name: "node"}, TopologyPolicies: r.TopologyPolicies}
	for _, attribute := range r.Attributes {
		report.Attributes = append(report.Attributes, topologyv1alpha2.AttributeInfo{Name: attribute.Name, Value: attribute.Value})
	}
	for _, zone := range r.Zones {
		made := topologyv1alpha2.Zone{Name: zone.Name, Type: zone.Type}
		for _, cost := range zone.Costs {
			made.Costs = append(made.Costs, topologyv1alpha2.CostInfo{Name: cost.Name, Value: cost.Value})
		}
		for _, amount := range zone.Resources {
			made.Resources = append(made.Resources, topologyv1alpha2.ResourceInfo{
				Name: amount.Name, Capacity: resource.MustParse(amount.Capacity),
				Allocatable: resource.MustParse(amount.Allocatable), Available: resource.MustParse(amount.Available),
			})
		}
		report.Zones = append(report.Zones, made)
	}
	return report
}

type containerInput struct {
	Name          string     `json:"name"`
	RestartPolicy *string    `json:"restartPolicy,omitempty"`
	Requests      quantities `json:"requests"`
	Limits        quantities `json:"limits"`
}

func (c *containerInput) container() corev1.Container {
	made := corev1.Container{Name: c.Name, Resources: corev1.ResourceRequirements{Requests: c.Requests.list(), Limits: c.Limits.list()}}
	if c.RestartPolicy != nil {
		policy := corev1.ContainerRestartPolicy(*c.RestartPolicy)
		made.RestartPolicy = &policy
	}
	return made
}

type podInput struct {
	InitContainers []containerInput `json:"initContainers"`
	Containers     []containerInput `json:"containers"`
	Overhead       quantities       `json:"overhead"`
}

func (p *podInput) pod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "pod"}}
	for _, container := range p.InitContainers {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container.container())
	}
	for _, container := range p.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, container.container())
	}
	pod.Spec.Overhead = p.Overhead.list()
	return pod
}

type filterInput struct {
	NRT             *reportInput `json:"nrt"`
	Pod             podInput     `json:"pod"`
	NodeAllocatable quantities   `json:"nodeAllocatable"`
}

func node(allocatable quantities) *framework.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Status:     corev1.NodeStatus{Allocatable: allocatable.list(), Capacity: allocatable.list()},
	})
	return info
}

func decideFilter(in filterInput) (any, error) {
	report := &plugin.VectorsReport{Report: in.NRT.report()}
	match, err := plugin.VectorsPlugin(report, "LeastAllocated", nil)
	if err != nil {
		return nil, err
	}
	status := match.Filter(context.Background(), framework.NewCycleState(), in.Pod.pod(), node(in.NodeAllocatable))
	reasons := []string{}
	if status != nil {
		reasons = append(reasons, status.Reasons()...)
	}
	return answer{"code": status.Code().String(), "reasons": reasons, "markedMaybeOverReserved": report.Marked}, nil
}

type scoreInput struct {
	NRT      *reportInput     `json:"nrt"`
	Pod      podInput         `json:"pod"`
	Strategy string           `json:"strategy"`
	Weights  map[string]int64 `json:"weights"`
}

func decideScore(in scoreInput) (any, error) {
	match, err := plugin.VectorsPlugin(&plugin.VectorsReport{Report: in.NRT.report()}, in.Strategy, in.Weights)
	if err != nil {
		return nil, err
	}
	score, status := match.Score(context.Background(), framework.NewCycleState(), in.Pod.pod(), node(nil))
	return answer{"score": score}, status.AsError()
}
