package pinfold

import (
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"

	"pinfold.dev/scheduler-plugin/proto"
)

// mirrorAnnotation of a mirror pod has the uid that its kubelet gave to the static pod.
const mirrorAnnotation = "kubernetes.io/config.mirror"

// needsNUMA says whether the NUMA rules of any node may apply to a pod: if it is Guaranteed, requests devices, or has
// labels or annotations of Koordinator or Volcano. A pod without NUMA needs costs nothing else.
func needsNUMA(pod *v1.Pod) bool {
	return qos.GetPodQOS(pod) == v1.PodQOSGuaranteed || requestsDevices(pod) || isOfOtherScheduler(pod)
}

func containers(pod *v1.Pod) []v1.Container {
	all := make([]v1.Container, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	return append(append(all, pod.Spec.InitContainers...), pod.Spec.Containers...)
}

func requestsDevices(pod *v1.Pod) bool {
	for _, container := range containers(pod) {
		for name := range container.Resources.Limits {
			if strings.Contains(string(name), "/") {
				return true
			}
		}
	}
	return false
}

func isOfOtherScheduler(pod *v1.Pod) bool {
	for _, keys := range []map[string]string{pod.Labels, pod.Annotations} {
		for key := range keys {
			if strings.Contains(key, "koordinator.sh/") || strings.Contains(key, "volcano.sh/") {
				return true
			}
		}
	}
	return false
}

// requestsAnything says whether any container of a pod has requests.
func requestsAnything(pod *v1.Pod) bool {
	return qos.GetPodQOS(pod) != v1.PodQOSBestEffort
}

// uidOf returns the uid that the kubelet uses. A mirror pod has another one in the API server. The value of the
// annotation is ignored if it looks like a uid of the API server: any user can write it.
func uidOf(pod *v1.Pod) string {
	if uid := pod.Annotations[mirrorAnnotation]; uid != "" && !isUUID(uid) {
		return uid
	}
	return string(pod.UID)
}

func isUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for at, char := range []byte(text) {
		if at == 8 || at == 13 || at == 18 || at == 23 {
			if char != '-' {
				return false
			}
		} else if !strings.ContainsRune("0123456789abcdefABCDEF", rune(char)) {
			return false
		}
	}
	return true
}

// named returns the message of a pod without its object, which the engine usually has.
func named(pod *v1.Pod) *proto.Pod {
	return &proto.Pod{Uid: uidOf(pod), ResourceVersion: pod.ResourceVersion}
}

// whole returns the message of a pod with its object, as it is before its binding: kube-scheduler sets the node of a pod
// when it reserves it.
func whole(pod *v1.Pod) (*proto.Pod, error) {
	unbound := *pod
	unbound.Spec.NodeName = ""
	object, err := json.Marshal(&unbound)
	if err != nil {
		return nil, err
	}
	message := named(pod)
	message.Json = object
	return message, nil
}
