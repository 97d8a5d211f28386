package main

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	nodeinfov1alpha1 "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/numaaware"
)

type numaInput struct {
	Policies    map[string]string `json:"policies"`
	CPUs        rows              `json:"cpus"`
	Allocatable sets              `json:"allocatable"`
	Reserved    quantities        `json:"reserved"`
}

type nodeInput struct {
	Name string     `json:"name"`
	Numa *numaInput `json:"numa"`
}

type containerInput struct {
	Name     string     `json:"name"`
	Requests quantities `json:"requests"`
}

type taskInput struct {
	Name       string           `json:"name"`
	Policy     *string          `json:"policy"`
	Guaranteed bool             `json:"guaranteed"`
	Containers []containerInput `json:"containers"`
}

type sessionInput struct {
	Nodes  []nodeInput `json:"nodes"`
	Tasks  []taskInput `json:"tasks"`
	Weight int         `json:"weight"`
}

func (n nodeInput) node() *api.NodeInfo {
	node := &api.NodeInfo{Name: n.Name}
	if n.Numa == nil {
		return node
	}
	node.NumaSchedulerInfo = &api.NumatopoInfo{
		Policies: map[nodeinfov1alpha1.PolicyName]string{}, NumaResMap: map[string]*api.ResourceInfo{},
		CPUDetail: n.Numa.CPUs.details(), ResReserved: n.Numa.Reserved.list(),
	}
	for name, value := range n.Numa.Policies {
		node.NumaSchedulerInfo.Policies[nodeinfov1alpha1.PolicyName(name)] = value
	}
	for name, free := range n.Numa.Allocatable {
		node.NumaSchedulerInfo.NumaResMap[name] = &api.ResourceInfo{Allocatable: cpuset.New(free...)}
	}
	return node
}

func (t taskInput) task() *api.TaskInfo {
	uid := "u-" + t.Name
	task := &api.TaskInfo{UID: api.TaskID(uid), Name: t.Name, Namespace: "ns"}
	task.Pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: t.Name, Namespace: "ns", UID: types.UID(uid)}}
	for _, input := range t.Containers {
		made := container(input.Name, input.Requests)
		if t.Guaranteed {
			made.Resources.Limits = input.Requests.list()
		}
		task.Pod.Spec.Containers = append(task.Pod.Spec.Containers, *made)
	}
	if t.Policy != nil {
		task.NumaInfo = &api.TopologyInfo{Policy: *t.Policy}
	}
	return task
}

func decideSession(in sessionInput) (any, error) {
	nodes := map[string]*api.NodeInfo{}
	var order []*api.NodeInfo
	for _, input := range in.Nodes {
		node := input.node()
		nodes[node.Name] = node
		order = append(order, node)
	}
	session := numaaware.NewVectorsSession(in.Weight, nodes)
	tasks, submitted := []answer{}, []answer{}
	for _, input := range in.Tasks {
		task := input.task()
		row, err := place(session, task, order)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, row)
		if node, ok := session.Bound(task.UID); ok {
			assigned, _ := session.Assigned(task.UID, node)
			submitted = append(submitted, answer{
				"uid": string(task.UID), "name": task.Name, "namespace": task.Namespace, "node": node, "cpus": cpus(assigned["cpu"]),
			})
		}
	}
	slices.SortFunc(submitted, func(a, b answer) int { return strings.Compare(a["uid"].(string), b["uid"].(string)) })
	return answer{"tasks": tasks, "submittedAtClose": submitted}, nil
}

// place runs the predicate on every node, orders those that fit and have NUMA information, and binds the task to the best:
// the first of those with the highest score.
func place(session *numaaware.VectorsSession, task *api.TaskInfo, nodes []*api.NodeInfo) (answer, error) {
	predicates := map[string]answer{}
	var fitting, ordered []*api.NodeInfo
	for _, node := range nodes {
		if err := session.Predicate(task, node); err != nil {
			fit := err.(*api.FitError)
			codes := []int{}
			for _, status := range fit.Status {
				codes = append(codes, status.Code)
			}
			predicates[node.Name] = answer{"fit": false, "error": fit.Error(), "reasons": fit.Reasons(), "codes": codes}
			continue
		}
		fitting = append(fitting, node)
		if node.NumaSchedulerInfo != nil {
			ordered = append(ordered, node)
		}
		row := answer{"fit": true, "assign": nil}
		if assigned, ok := session.Assigned(task.UID, node.Name); ok {
			row["assign"] = setsOf(assigned)
		}
		predicates[node.Name] = row
	}
	scores, err := session.Order(task, ordered)
	if err != nil {
		return nil, err
	}
	row := answer{"task": task.Name, "predicate": predicates, "scores": nil, "bind": nil}
	if scores != nil {
		row["scores"] = scores
	}
	best := -1
	for at, node := range fitting {
		if best < 0 || scores[node.Name] > scores[fitting[best].Name] {
			best = at
		}
	}
	if best >= 0 {
		task.NodeName = fitting[best].Name
		row["bind"] = task.NodeName
		session.Handler.AllocateFunc(&framework.Event{Task: task})
	}
	free := map[string][]int{}
	for _, node := range nodes {
		if set, ok := session.Free(node.Name); ok {
			free[node.Name] = cpus(set)
		}
	}
	row["freeAfter"] = free
	return row, nil
}
