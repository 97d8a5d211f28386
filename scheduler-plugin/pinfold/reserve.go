package pinfold

import (
	"context"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// lookTimeout is the time for reading a pod whose binding had no result.
const lookTimeout = 3 * time.Second

// reserveCall is a call of Reserve, which the binding of its pod waits for.
type reserveCall struct {
	done   chan struct{}
	status *fwk.Status
}

// result waits for the call and returns its status. A pod without a call needs no reservation.
func (c *reserveCall) result() *fwk.Status {
	if c == nil {
		return nil
	}
	<-c.done
	return c.status
}

// Reserve makes the pod count on its node, for the engine as for kube-scheduler, until it is bound or Unreserve is
// called: pods that wait for Permit or for volumes are never promised the same CPUs. kube-scheduler does not wait for
// the answer: the binding of the pod does, and the next call about another pod.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	verdicts, err := readVerdicts(state)
	if err != nil {
		return nil // skipped
	}
	call := &reserveCall{done: make(chan struct{})}
	verdicts.reserve = call
	p.engine.reserving.Add(1)
	// The context ends with the scheduling cycle.
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer p.engine.reserving.Done()
		status := p.reserve(ctx, pod, node)
		if !status.IsSuccess() {
			if waiting := p.handle.GetWaitingPod(pod.UID); waiting != nil {
				waiting.Reject(Name, status.Message())
			}
		}
		call.status = status
		close(call.done)
	}()
	return nil
}

func (p *Plugin) reserve(ctx context.Context, pod *v1.Pod, node string) *fwk.Status {
	rejection, err := p.engine.reserve(ctx, pod, node)
	if err != nil {
		p.engineFailed()
		return fwk.NewStatus(fwk.Unschedulable, "the NUMA engine did not answer: "+reasonOf(err))
	}
	if rejection != "" {
		return fwk.NewStatus(fwk.Unschedulable, rejection)
	}
	p.waiting.remove(pod.UID)
	return nil
}

// Unreserve releases the reservation.
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	verdicts, err := readVerdicts(state)
	if err != nil {
		return
	}
	verdicts.reserve.result()
	p.waiting.add(pod)
	p.engine.unreserve(ctx, pod)
}

// Bind binds a reserved pod and writes its placement onto it, in one request. It has to run before DefaultBinder, which
// binds all other pods.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if verdicts, err := readVerdicts(state); err == nil {
		if status := verdicts.reserve.result(); !status.IsSuccess() {
			return status
		}
	}
	held := p.engine.reservation(pod.UID)
	if held == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: held.annotations},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
	pods := p.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	err := pods.Bind(ctx, binding, metav1.CreateOptions{})
	if err != nil && !p.wasBound(ctx, pod, node, held, err) {
		return fwk.AsStatus(err)
	}
	p.engine.recordBinding(pod.UID, time.Now())
	return nil
}

// wasBound finds out whether a pod was bound although the request failed. If that is unknown, the reservation says so.
func (p *Plugin) wasBound(ctx context.Context, pod *v1.Pod, node string, held *reservation, failure error) bool {
	answer, answered := failure.(apierrors.APIStatus)
	if answered && answer.Status().Code < http.StatusInternalServerError && !apierrors.IsConflict(failure) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	found, err := p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err == nil && found.UID == pod.UID && found.Spec.NodeName == node {
		return true
	}
	// Without an answer, or with one about an error of the server such as a timeout, the request may still be executed.
	mayFollow := !answered || answer.Status().Code >= http.StatusInternalServerError
	held.maybeBound = !apierrors.IsNotFound(err) && (err != nil || mayFollow)
	return false
}
