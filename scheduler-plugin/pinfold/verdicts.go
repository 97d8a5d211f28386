package pinfold

import (
	"maps"
	"math/bits"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/scheduler-plugin/proto"
)

// unknownNode is the reason for a node that the engine has not seen yet.
const unknownNode = "node(s) that the NUMA engine does not know yet"

// verdicts is the state of one scheduling cycle: the engine's answer, and the pods that kube-scheduler adds to nodes and
// removes from them to evaluate preemption and nominated pods.
type verdicts struct {
	names *nodeNames
	// reasonAt has for every node the number of its reason; 0 if it takes the pod.
	reasonAt []uint8
	reasons  []*proto.Rejection
	scores   []uint8
	changes  map[string]*nodeChange
	// reserve is the call that reserves the pod; nil before.
	reserve *reserveCall
}

// nodeChange are the pods added to a node and removed from it.
type nodeChange struct {
	added   []*v1.Pod
	removed map[string]struct{}
}

// newVerdicts unpacks a reply.
func newVerdicts(reply *proto.PreFilterReply, names *nodeNames) *verdicts {
	count := len(names.index)
	unpacked := &verdicts{
		names:    names,
		reasonAt: make([]uint8, count),
		reasons:  reply.Rejections,
		scores:   make([]uint8, count),
		changes:  map[string]*nodeChange{},
	}
	next := 0
	forEach(reply.Fits, count, func(at int) {
		if next < len(reply.Scores) {
			unpacked.scores[at] = reply.Scores[next]
			next++
		}
	})
	for number, rejection := range reply.Rejections {
		forEach(rejection.Nodes, count, func(at int) {
			unpacked.reasonAt[at] = uint8(min(number+1, 255))
		})
	}
	return unpacked
}

// forEach calls do with every number below count whose bit is set, ascending.
func forEach(set []byte, count int, do func(at int)) {
	for at, octet := range set {
		for ; octet != 0; octet &= octet - 1 {
			if number := 8*at + bits.TrailingZeros8(octet); number < count {
				do(number)
			}
		}
	}
}

// Clone copies the state for an evaluation with changes of its own.
func (v *verdicts) Clone() fwk.StateData {
	clone := *v
	clone.changes = make(map[string]*nodeChange, len(v.changes))
	for node, change := range v.changes {
		clone.changes[node] = &nodeChange{added: slices.Clone(change.added), removed: maps.Clone(change.removed)}
	}
	return &clone
}

// status is the verdict about a node as it is.
func (v *verdicts) status(node string) *fwk.Status {
	at, known := v.names.index[node]
	if !known {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, unknownNode)
	}
	number := v.reasonAt[at]
	if number == 0 {
		return nil
	}
	rejection := v.reasons[number-1]
	return fwk.NewStatus(codeOf(rejection.Kind), rejection.Reason)
}

// isTemporary says whether a node takes the pod after its next report.
func (v *verdicts) isTemporary(at int) bool {
	number := v.reasonAt[at]
	return number > 0 && v.reasons[number-1].Kind == proto.RejectionKind_TEMPORARY
}

// change returns the change of a node, to be extended.
func (v *verdicts) change(node string) *nodeChange {
	if v.changes[node] == nil {
		v.changes[node] = &nodeChange{removed: map[string]struct{}{}}
	}
	return v.changes[node]
}

func (c *nodeChange) isEmpty() bool {
	return c == nil || len(c.added)+len(c.removed) == 0
}

// add adds a pod, or takes back its removal.
func (c *nodeChange) add(pod *v1.Pod) {
	uid := uidOf(pod)
	if _, removed := c.removed[uid]; removed {
		delete(c.removed, uid)
		return
	}
	c.added = append(c.added, pod)
}

// remove removes a pod, or takes back its addition.
func (c *nodeChange) remove(pod *v1.Pod) {
	before := len(c.added)
	c.added = slices.DeleteFunc(c.added, func(added *v1.Pod) bool { return added.UID == pod.UID })
	if len(c.added) == before {
		c.removed[uidOf(pod)] = struct{}{}
	}
}
