// Package frameworkext stands in for Koordinator's package of the same name, which links the whole scheduler. The vectors
// have no reservations: of those the plugin only needs the types.
package frameworkext

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwktype "k8s.io/kube-scheduler/framework"

	"github.com/koordinator-sh/koordinator/apis/extension"
	schedulingv1alpha1 "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
)

type (
	// ExtendedHandle is what the plugin asks of the scheduler.
	ExtendedHandle interface {
		fwktype.Handle
		GetReservationCache() ReservationCache
		GetReservationNominator() ReservationNominator
	}
	// FrameworkExtender runs the topology manager.
	FrameworkExtender interface {
		ExtendedHandle
		RunNUMATopologyManagerAdmit(ctx context.Context, cycleState fwktype.CycleState, pod *corev1.Pod, node *corev1.Node, numaNodes []int, policyType extension.NUMATopologyPolicy, exclusivePolicy extension.NumaTopologyExclusive, allNUMANodeStatus []extension.NumaNodeStatus) *fwktype.Status
	}
	// ReservationCache has no reservations.
	ReservationCache interface {
		GetReservationInfoByPod(pod *corev1.Pod, nodeName string) *ReservationInfo
	}
	// ReservationNominator nominates no reservation.
	ReservationNominator interface {
		GetNominatedReservation(pod *corev1.Pod, nodeName string) *ReservationInfo
		GetNominatedPreAllocation(rInfo *ReservationInfo, nodeName string) *corev1.Pod
	}
	// NodeReservationRestoreStates are states by node.
	NodeReservationRestoreStates map[string]any
	// ReservationRestorePlugin is implemented by the plugin and not called.
	ReservationRestorePlugin any
	// ReservationPreAllocationRestorePlugin is implemented by the plugin and not called.
	ReservationPreAllocationRestorePlugin any
	// ReservationFilterPlugin is implemented by the plugin and not called.
	ReservationFilterPlugin any
	// ReservationPreBindPlugin is implemented by the plugin and not called.
	ReservationPreBindPlugin any
	// PodRequirement is a pod of a reservation.
	PodRequirement struct {
		Namespace, Name string
		UID             types.UID
	}
	// ReservationInfo is a reservation; there is none.
	ReservationInfo struct {
		Reservation  *schedulingv1alpha1.Reservation
		Pod          *corev1.Pod
		AssignedPods map[types.UID]*PodRequirement
	}
)

func (*ReservationInfo) UID() types.UID             { return "" }
func (*ReservationInfo) GetName() string            { return "" }
func (*ReservationInfo) GetNamespace() string       { return "" }
func (*ReservationInfo) GetNodeName() string        { return "" }
func (*ReservationInfo) GetReservePod() *corev1.Pod { return nil }

func (*ReservationInfo) GetAllocatePolicy() schedulingv1alpha1.ReservationAllocatePolicy {
	return schedulingv1alpha1.ReservationAllocatePolicyDefault
}
