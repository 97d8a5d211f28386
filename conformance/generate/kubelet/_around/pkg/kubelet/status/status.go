// Package status stands in for the kubelet's package of the same name: the managers only ask for a pod's status.
package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodStatusProvider knows the status of pods.
type PodStatusProvider interface {
	GetPodStatus(uid types.UID) (v1.PodStatus, bool)
}
