// Package pinfold is the plugin Pinfold of kube-scheduler. It makes no decisions: the engine pinfold-scheduler, on a
// unix socket, evaluates pods on all nodes and holds reservations.
package pinfold

import (
	"context"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/scheduler-plugin/proto"
)

// Name is the name of the plugin in a KubeSchedulerConfiguration.
const Name = "Pinfold"

const stateKey = fwk.StateKey(Name)

// Plugin implements the extension points.
type Plugin struct {
	args   *Args
	engine *engine
	handle fwk.Handle
	pods   cache.SharedIndexInformer
	// waiting are the pods that some node rejected.
	waiting *waitingPods
	// failed has a value after a call of the engine failed.
	failed chan struct{}
}

var (
	_ fwk.PreFilterPlugin     = &Plugin{}
	_ fwk.PreFilterExtensions = &Plugin{}
	_ fwk.FilterPlugin        = &Plugin{}
	_ fwk.PostFilterPlugin    = &Plugin{}
	_ fwk.PreScorePlugin      = &Plugin{}
	_ fwk.ScorePlugin         = &Plugin{}
	_ fwk.ScoreExtensions     = &Plugin{}
	_ fwk.ReservePlugin       = &Plugin{}
	_ fwk.BindPlugin          = &Plugin{}
	_ fwk.EnqueueExtensions   = &Plugin{}
	_ fwk.SignPlugin          = &Plugin{}
)

// New makes the plugin of a profile.
func New(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := parseArgs(object)
	if err != nil {
		return nil, err
	}
	engine, err := connect(args)
	if err != nil {
		return nil, err
	}
	pods := handle.SharedInformerFactory().Core().V1().Pods()
	plugin := &Plugin{args: args, engine: engine, handle: handle, pods: pods.Informer(), failed: make(chan struct{}, 1)}
	plugin.waiting = newWaitingPods(pods.Lister())
	go plugin.requeue(ctx)
	go plugin.retry(ctx)
	return plugin, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// PreFilter asks the engine about all nodes at once. Pods that no NUMA rule applies to are skipped.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !needsNUMA(pod) && !(p.engine.checksAll.Load() && requestsAnything(pod)) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	p.waiting.add(pod)
	reply, names, err := p.engine.preFilter(ctx, pod, p.podsVersion())
	if err != nil {
		if p.args.EngineAway == pass || !needsNUMA(pod) {
			return nil, fwk.NewStatus(fwk.Skip)
		}
		klog.FromContext(ctx).V(2).Info("The engine did not answer", "pod", klog.KObj(pod), "err", err)
		if isAboutPod(err) {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the NUMA engine cannot evaluate the pod: "+reasonOf(err))
		}
		p.engineFailed()
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the NUMA engine did not answer: "+reasonOf(err))
	}
	state.Write(stateKey, newVerdicts(reply, names))
	return nil, nil
}

// podsVersion returns the resource version up to which kube-scheduler has seen the pods; 0 if it is unknown.
func (p *Plugin) podsVersion() uint64 {
	version, err := strconv.ParseUint(p.pods.LastSyncResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// PreFilterExtensions returns the extensions that add and remove pods.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod records that a pod counts on a node, such as a nominated one.
func (*Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	verdicts, err := readVerdicts(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	verdicts.change(node.Node().Name).add(added.GetPod())
	return nil
}

// RemovePod records that a pod does not count on a node, such as a victim of preemption.
func (*Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	verdicts, err := readVerdicts(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	verdicts.change(node.Node().Name).remove(removed.GetPod())
	return nil
}

// Filter answers from PreFilter's reply. The engine is asked again about a node with pods added or removed.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	verdicts, err := readVerdicts(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	node := info.Node().Name
	change := verdicts.changes[node]
	if change.isEmpty() {
		return verdicts.status(node)
	}
	rejection, err := p.engine.filterNode(ctx, pod, node, change)
	if err != nil {
		if !isAboutPod(err) {
			p.engineFailed()
		}
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the NUMA engine did not answer: "+reasonOf(err))
	}
	if rejection == nil {
		return nil
	}
	return fwk.NewStatus(codeOf(rejection.Kind), rejection.Reason)
}

// PostFilter keeps kube-scheduler from evicting pods while a node that passed all other plugins has room, and only has
// to report its new pods first. It has to run before DefaultPreemption.
func (*Plugin) PostFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	verdicts, err := readVerdicts(state)
	if err != nil {
		// PreFilter of another plugin failed, or this one was skipped.
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	for node, at := range verdicts.names.index {
		if verdicts.isTemporary(at) && (node == pod.Status.NominatedNodeName || statuses.Get(node).Plugin() == Name) {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "a node has room after its next NUMA report")
		}
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// PreScore skips Score for pods that PreFilter skipped.
func (*Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if _, err := readVerdicts(state); err != nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score returns the engine's score.
func (*Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	verdicts, err := readVerdicts(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	at, known := verdicts.names.index[info.Node().Name]
	if !known {
		return 0, nil
	}
	return int64(verdicts.scores[at]), nil
}

// ScoreExtensions returns the extension that normalizes scores.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore makes the scores relative to the worst node: only differences count.
func (*Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	least := int64(fwk.MaxNodeScore)
	for _, score := range scores {
		least = min(least, score.Score)
	}
	for at := range scores {
		scores[at].Score -= least
	}
	return nil
}

// SignPod names what the engine's answer depends on. Pods of other schedulers' dialects are not batched.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if isOfOtherScheduler(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "the pod has annotations of another scheduler")
	}
	if !needsNUMA(pod) && !p.engine.checksAll.Load() {
		return nil, nil
	}
	var resources []v1.ResourceRequirements
	for _, container := range containers(pod) {
		resources = append(resources, container.Resources)
	}
	return []fwk.SignFragment{
		{Key: Name + ".Containers", Value: resources},
		{Key: Name + ".Pod", Value: pod.Spec.Resources},
		{Key: Name + ".InitContainers", Value: len(pod.Spec.InitContainers)},
	}, nil
}

func readVerdicts(state fwk.CycleState) (*verdicts, error) {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil, err
	}
	found, ok := data.(*verdicts)
	if !ok {
		return nil, fmt.Errorf("expected the state of plugin %s, found %T", Name, data)
	}
	return found, nil
}

func codeOf(kind proto.RejectionKind) fwk.Code {
	if kind == proto.RejectionKind_UNRESOLVABLE {
		return fwk.UnschedulableAndUnresolvable
	}
	return fwk.Unschedulable
}
