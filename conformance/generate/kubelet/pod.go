package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
)

// pod and container are the pods of the vectors.
type pod struct {
	UID            string            `json:"uid"`
	InitContainers []container       `json:"init_containers"`
	Containers     []container       `json:"containers"`
	PodRequests    map[string]string `json:"pod_requests,omitempty"`
	PodLimits      map[string]string `json:"pod_limits,omitempty"`
}

type container struct {
	Name        string            `json:"name"`
	Restartable bool              `json:"restartable,omitempty"`
	Requests    map[string]string `json:"requests"`
	Limits      map[string]string `json:"limits"`
}

// object is the pod of the API. It goes through JSON, so that fields that a version does not have are dropped.
func (p *pod) object() (*v1.Pod, error) {
	containers := func(from []container, init bool) []map[string]any {
		list := []map[string]any{}
		for _, c := range from {
			made := map[string]any{"name": c.Name, "resources": map[string]any{"requests": c.Requests, "limits": c.Limits}}
			if init && c.Restartable {
				made["restartPolicy"] = "Always"
			}
			list = append(list, made)
		}
		return list
	}
	spec := map[string]any{"initContainers": containers(p.InitContainers, true), "containers": containers(p.Containers, false)}
	if p.PodRequests != nil || p.PodLimits != nil {
		spec["resources"] = map[string]any{"requests": p.PodRequests, "limits": p.PodLimits}
	}
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID, "name": p.UID, "namespace": "default"},
		"spec":     spec,
	})
	if err != nil {
		return nil, err
	}
	made := &v1.Pod{}
	return made, json.Unmarshal(text, made)
}

func (p *pod) all() []container {
	return append(append([]container{}, p.InitContainers...), p.Containers...)
}

func named(object *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{object.Spec.InitContainers, object.Spec.Containers} {
		for at := range list {
			if list[at].Name == name {
				return &list[at]
			}
		}
	}
	return nil
}

// wish is how large the pods of a case are.
type wish struct {
	cpus      int      // the most whole CPUs of a container
	memory    int      // the most MiB of a container
	hugepages []string // the page sizes that containers ask for
	devices   []string // resources of device plugins
	podLevel  bool     // whether pods may have pod-level resources
}

func generatePod(r *rand.Rand, uid string, w wish) pod {
	made := pod{UID: uid, InitContainers: []container{}, Containers: []container{}}
	class := r.IntN(10)
	for at := range pick(r, 0, 0, 0, 0, 1, 1, 2, 3) {
		c := generateContainer(r, fmt.Sprintf("init%d", at), w, class)
		c.Restartable = chance(r, 30)
		made.InitContainers = append(made.InitContainers, c)
	}
	for at := range pick(r, 1, 1, 1, 2, 2, 3) {
		made.Containers = append(made.Containers, generateContainer(r, fmt.Sprintf("c%d", at), w, class))
	}
	if w.podLevel && chance(r, 60) {
		requests := map[string]string{
			"cpu":    fmt.Sprint(1 + r.IntN(w.cpus*2)),
			"memory": fmt.Sprintf("%dMi", 64+64*r.IntN(1+w.memory/32)),
		}
		limits := map[string]string{"cpu": requests["cpu"], "memory": requests["memory"]}
		if chance(r, 15) {
			limits["cpu"] += "000"
		}
		made.PodRequests, made.PodLimits = requests, limits
	}
	return made
}

// generateContainer makes a container. class below 7: requests and limits are equal and named, so that a pod of such
// containers is Guaranteed.
func generateContainer(r *rand.Rand, name string, w wish, class int) container {
	c := container{Name: name, Requests: map[string]string{}, Limits: map[string]string{}}
	if class == 9 && chance(r, 70) {
		return c
	}
	cpu := 1 + r.IntN(w.cpus)
	if chance(r, 4) {
		cpu = w.cpus * 40
	}
	switch {
	case chance(r, 12):
		c.Requests["cpu"] = fmt.Sprintf("%dm", cpu*1000-pick(r, 50, 500, 999))
	case chance(r, 30):
		c.Requests["cpu"] = fmt.Sprintf("%d000m", cpu)
	default:
		c.Requests["cpu"] = fmt.Sprint(cpu)
	}
	memory := 64 * (1 + r.IntN(1+w.memory/64))
	if chance(r, 30) {
		c.Requests["memory"] = fmt.Sprint(memory << 20)
	} else {
		c.Requests["memory"] = fmt.Sprintf("%dMi", memory)
	}
	for _, size := range w.hugepages {
		if size == "2Mi" && chance(r, 25) {
			c.Requests["hugepages-2Mi"] = fmt.Sprintf("%dMi", 64*(1+r.IntN(8)))
		} else if size == "1Gi" && chance(r, 5) {
			c.Requests["hugepages-1Gi"] = "1Gi"
		}
	}
	for _, resource := range w.devices {
		if chance(r, 45) {
			c.Requests[resource] = fmt.Sprint(pick(r, 1, 1, 1, 2, 2, 3, 4, 9))
		}
	}
	for resource, amount := range c.Requests {
		if class < 7 || (resource != "cpu" && resource != "memory") {
			c.Limits[resource] = amount
		}
	}
	return c
}
