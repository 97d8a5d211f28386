package pinfold

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// maxWaiting is the most pods that are remembered, as many as the engine remembers.
	maxWaiting = 10_000
	// retryInterval is the time between attempts to reach the engine.
	retryInterval = 200 * time.Millisecond
	// refusedPerLook is how many pods are not remembered before all remembered ones are looked at again.
	refusedPerLook = 1000
	// maxReason is the longest reason in bytes.
	maxReason = 200
)

// EventsToRegister returns the events that may make a rejected pod schedulable. The engine watches nodes, pods and NUMA
// reports itself and names the pods that a node takes now, see requeue: an event here would reach kube-scheduler before
// the engine has seen it. What the engine does not decide about is left: changes of the pod itself, and the end of a
// nominated pod, whose place was kept for it.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	changed := fwk.UpdatePodLabel | fwk.UpdatePodScaleDown
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: changed}, QueueingHintFn: isOwnUpdate},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, QueueingHintFn: wasNominated},
	}, nil
}

func isOwnUpdate(_ klog.Logger, pod *v1.Pod, _, newObject any) (fwk.QueueingHint, error) {
	if updated, ok := newObject.(*v1.Pod); ok && updated.UID == pod.UID {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func wasNominated(_ klog.Logger, pod *v1.Pod, oldObject, _ any) (fwk.QueueingHint, error) {
	if gone, ok := oldObject.(*v1.Pod); ok && gone.Status.NominatedNodeName != "" && gone.UID != pod.UID {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// waitingPods are pods that some node rejected.
type waitingPods struct {
	lock   sync.Mutex
	byUID  map[types.UID]types.NamespacedName
	lister corelisters.PodLister
	// refused is the number of pods that were not remembered because there were too many.
	refused int
}

func newWaitingPods(lister corelisters.PodLister) *waitingPods {
	return &waitingPods{byUID: map[types.UID]types.NamespacedName{}, lister: lister}
}

func (w *waitingPods) add(pod *v1.Pod) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if len(w.byUID) >= maxWaiting {
		if w.refused%refusedPerLook == 0 {
			for uid := range w.byUID {
				w.get(uid)
			}
		}
		if len(w.byUID) >= maxWaiting {
			w.refused++
			return
		}
	}
	w.byUID[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func (w *waitingPods) remove(uid types.UID) {
	w.lock.Lock()
	defer w.lock.Unlock()
	delete(w.byUID, uid)
}

// get returns a pod that still waits. Forgets it if it is gone or bound.
func (w *waitingPods) get(uid types.UID) *v1.Pod {
	name, known := w.byUID[uid]
	if !known {
		return nil
	}
	pod, err := w.lister.Pods(name.Namespace).Get(name.Name)
	if err != nil || pod.UID != uid || pod.Spec.NodeName != "" {
		delete(w.byUID, uid)
		return nil
	}
	return pod
}

// find returns the pods of these uids that still wait, or all of them, by name. Forgets pods that are gone.
func (w *waitingPods) find(uids []string, all bool) map[string]*v1.Pod {
	w.lock.Lock()
	defer w.lock.Unlock()
	found := map[string]*v1.Pod{}
	look := func(uid types.UID) {
		if pod := w.get(uid); pod != nil {
			found[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}.String()] = pod
		}
	}
	if all {
		for uid := range w.byUID {
			look(uid)
		}
		return found
	}
	for _, uid := range uids {
		look(types.UID(uid))
	}
	return found
}

// requeue moves pods that a node takes now to the active queue, as the engine names them. It starts with the first pod
// that the plugin is asked about: a process that is not the leader must not start a session.
func (p *Plugin) requeue(ctx context.Context) {
	logger := klog.LoggerWithName(klog.FromContext(ctx), Name)
	for ctx.Err() == nil {
		if p.waiting.isEmpty() {
			sleep(ctx, retryInterval)
			continue
		}
		uids, err := p.engine.requeues(ctx)
		if err != nil {
			logger.V(2).Info("The engine did not answer", "err", err)
			p.engineFailed()
			sleep(ctx, retryInterval)
			continue
		}
		p.activate(logger, p.waiting.find(uids, false))
	}
}

// engineFailed makes retry run: pods wait that the engine was not asked about, or requeues may be lost.
func (p *Plugin) engineFailed() {
	select {
	case p.failed <- struct{}{}:
	default: // It runs already.
	}
}

// retry moves all waiting pods to the active queue as soon as the engine answers again.
func (p *Plugin) retry(ctx context.Context) {
	logger := klog.LoggerWithName(klog.FromContext(ctx), Name)
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.failed:
		}
		for {
			sleep(ctx, retryInterval)
			if p.engine.start(ctx) == nil || ctx.Err() != nil {
				break
			}
		}
		p.activate(logger, p.waiting.find(nil, true))
	}
}

func (p *Plugin) activate(logger klog.Logger, pods map[string]*v1.Pod) {
	if len(pods) > 0 {
		p.handle.Activate(logger, pods)
	}
}

func (w *waitingPods) isEmpty() bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return len(w.byUID) == 0
}

func sleep(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}

// isAboutPod says whether a call failed because of its pod: it would fail again, and calls for other pods do not.
func isAboutPod(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.OutOfRange, codes.ResourceExhausted:
		return true
	default:
		return false
	}
}

// reasonOf is the text of a failed call, without what differs from pod to pod.
func reasonOf(err error) string {
	text := status.Convert(err).Message()
	if strings.HasPrefix(text, "connection error") {
		text = "it is not running"
	}
	return text[:min(len(text), maxReason)]
}
