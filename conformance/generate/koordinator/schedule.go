package main

import (
	"context"
	"encoding/json"
	"slices"

	nrtv1alpha1 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwktype "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/koordinator-sh/koordinator/apis/extension"
	schedulingconfig "github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext/topologymanager"
	numa "github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/nodenumaresource"
)

// quantities are amounts as text.
type quantities map[string]string

func (q quantities) list() corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, text := range q {
		list[corev1.ResourceName(name)] = resource.MustParse(text)
	}
	return list
}

type strategyInput struct {
	Type      string           `json:"type"`
	Resources map[string]int64 `json:"resources"`
}

type argsInput struct {
	DefaultCPUBindPolicy string        `json:"defaultCPUBindPolicy"`
	ScoringStrategy      strategyInput `json:"scoringStrategy"`
	NUMAScoringStrategy  strategyInput `json:"numaScoringStrategy"`
}

type clusterNode struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Allocatable quantities        `json:"allocatable"`
}

type zoneInput struct {
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	Resources quantities `json:"resources"`
}

type reportInput struct {
	Annotations      map[string]string `json:"annotations"`
	TopologyPolicies []string          `json:"topologyPolicies"`
	Zones            []zoneInput       `json:"zones"`
}

type podInput struct {
	Name         string            `json:"name"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	Priority     *int32            `json:"priority"`
	Requests     quantities        `json:"requests"`
	DeleteBefore []string          `json:"deleteBefore"`
}

type scheduleInput struct {
	Node clusterNode  `json:"node"`
	NRT  *reportInput `json:"nrt"`
	Args argsInput    `json:"args"`
	Pods []podInput   `json:"pods"`
}

func (r *reportInput) report() *nrtv1alpha1.NodeResourceTopology {
	if r == nil {
		return nil
	}
	report := &nrtv1alpha1.NodeResourceTopology{
		ObjectMeta:       metav1.ObjectMeta{Name: "node", Annotations: r.Annotations},
		TopologyPolicies: r.TopologyPolicies,
	}
	for _, zone := range r.Zones {
		made := nrtv1alpha1.Zone{Name: zone.Name, Type: zone.Type}
		for _, name := range sorted(zone.Resources) {
			amount := resource.MustParse(zone.Resources[name])
			made.Resources = append(made.Resources, nrtv1alpha1.ResourceInfo{Name: name, Capacity: amount, Allocatable: amount, Available: amount})
		}
		report.Zones = append(report.Zones, made)
	}
	return report
}

func (p *podInput) pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: "default", UID: types.UID(p.Name), Labels: p.Labels, Annotations: p.Annotations},
		Spec: corev1.PodSpec{
			Priority:   p.Priority,
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: p.Requests.list()}}},
		},
	}
}

func decideSchedule(in scheduleInput) (any, error) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: in.Node.Labels, Annotations: in.Node.Annotations},
		Status:     corev1.NodeStatus{Allocatable: in.Node.Allocatable.list(), Capacity: in.Node.Allocatable.list()},
	}
	strategy := func(s strategyInput) *schedulingconfig.ScoringStrategy {
		return numa.VectorsStrategy(s.Type, s.Resources)
	}
	args := &schedulingconfig.NodeNUMAResourceArgs{
		DefaultCPUBindPolicy: in.Args.DefaultCPUBindPolicy,
		ScoringStrategy:      strategy(in.Args.ScoringStrategy),
		NUMAScoringStrategy:  strategy(in.Args.NUMAScoringStrategy),
	}
	scheduler := numa.NewVectorsScheduler(args, node, in.NRT.report())
	placed := map[string]*corev1.Pod{}
	rows := []answer{}
	for _, input := range in.Pods {
		for _, name := range input.DeleteBefore {
			if pod := placed[name]; pod != nil {
				scheduler.GetResourceManager().Release("node", pod.UID)
				if err := scheduler.Info.RemovePod(klog.Background(), pod); err != nil {
					return nil, err
				}
				delete(placed, name)
			}
		}
		pod := input.pod()
		row, bound := schedule(scheduler, pod)
		rows = append(rows, row)
		if bound {
			pod.Spec.NodeName = "node"
			scheduler.Info.AddPod(pod)
			placed[pod.Name] = pod
		}
	}
	return rows, nil
}

func schedule(scheduler *numa.VectorsScheduler, pod *corev1.Pod) (answer, bool) {
	ctx, state := context.Background(), framework.NewCycleState()
	row := answer{"pod": pod.Name}
	step := func(name string, status *fwktype.Status) bool {
		reasons := []string{}
		if status != nil {
			reasons = inOrder(status.Reasons())
		}
		row[name] = answer{"code": status.Code().String(), "reasons": reasons}
		return status.IsSuccess()
	}
	nodes := []fwktype.NodeInfo{scheduler.Info}
	if _, status := scheduler.PreFilter(ctx, state, pod, nodes); !step("preFilter", status) {
		return row, false
	}
	if !step("filter", scheduler.Filter(ctx, state, pod, scheduler.Info)) {
		return row, false
	}
	if affinity, ok := topologymanager.GetStore(state).GetAffinity("node"); ok {
		row["affinityAfterFilter"] = hintOf(affinity)
	}
	score, _ := scheduler.Score(ctx, state, pod, scheduler.Info)
	row["score"] = score
	if !step("reserve", scheduler.Reserve(ctx, state, pod, "node")) {
		scheduler.Unreserve(ctx, state, pod, "node")
		return row, false
	}
	if !step("preBind", scheduler.PreBind(ctx, state, pod, "node")) {
		scheduler.Unreserve(ctx, state, pod, "node")
		return row, false
	}
	row["resourceSpec"] = json.RawMessage("null")
	if spec, ok := pod.Annotations[extension.AnnotationResourceSpec]; ok {
		row["resourceSpec"] = json.RawMessage(spec)
	}
	row["resourceStatus"] = nil
	if _, ok := pod.Annotations[extension.AnnotationResourceStatus]; ok {
		status, err := extension.GetResourceStatus(pod.Annotations)
		if err != nil {
			panic(err)
		}
		parts := []onNode{}
		for _, part := range status.NUMANodeResources {
			parts = append(parts, onNode{int(part.Node), amountsOf(part.Resources)})
		}
		slices.SortFunc(parts, func(a, b onNode) int { return a.Node - b.Node })
		row["resourceStatus"] = answer{"cpuset": status.CPUSet, "numaNodeResources": parts}
	}
	return row, true
}
