package pinfold

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	goproto "google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/scheduler-plugin/proto"
)

const (
	service = "/pinfold.engine.v1.Engine/"
	version = 3
	// maxMessage is the limit of a message in bytes, as the engine has it.
	maxMessage = 4 << 20
	// maxObjects is the most bytes of pods in a ConnectRequest. The engine has listed the others itself.
	maxObjects = 2 << 20
	// The engine sees a binding shortly after the API server has confirmed it. Until then it must keep the reservation
	// when the session starts again, so a bound pod is named for so long. maxBound is the most pods that are named.
	seenAfter = time.Minute
	maxBound  = 4096
)

// engine is the connection to the engine. All plugins of a process that have the same socket share one: the engine
// serves one kube-scheduler at a time.
type engine struct {
	conn    *grpc.ClientConn
	timeout time.Duration
	// scheduler identifies this process.
	scheduler uint64
	// dialects are the arguments of other schedulers' plugins.
	dialects *proto.DialectArgs
	// checksAll is whether the engine has to be asked about all pods with requests.
	checksAll atomic.Bool

	// session is held for reading during calls, and for writing while a session starts.
	session   sync.RWMutex
	connected bool

	// reserving are the calls of Reserve without an answer yet. Calls about other pods wait for them: their pods count.
	reserving sync.WaitGroup
	// reserved are the pods that are reserved and neither bound nor released. bound are those that were bound last, oldest
	// first, and unconfirmed those that may have been bound and whose Unreserve failed.
	reservedLock sync.Mutex
	reserved     map[types.UID]*reservation
	bound        []boundPod
	unconfirmed  map[types.UID]*reservation

	names atomic.Pointer[nodeNames]
}

// reservation is a pod that is reserved on a node.
type reservation struct {
	pod         *v1.Pod
	node        string
	annotations map[string]string
	// maybeBound is set if the result of the binding is unknown.
	maybeBound bool
}

// boundPod is a pod whose binding the engine may not have seen yet.
type boundPod struct {
	pod  *proto.Pod
	node string
	at   time.Time
}

// nodeNames are the names of all nodes that the engine knows; it names nodes by their index.
type nodeNames struct {
	generation uint64
	index      map[string]int
}

var (
	enginesLock sync.Mutex
	engines     = map[string]*engine{}
)

// connect returns the connection to the engine behind a socket. Nothing is sent yet.
func connect(args *Args) (*engine, error) {
	enginesLock.Lock()
	defer enginesLock.Unlock()
	socket, dialects := args.Socket, args.dialects()
	if known := engines[socket]; known != nil {
		if !goproto.Equal(known.dialects, dialects) {
			return nil, fmt.Errorf("args of plugin %s: expected the same koordinator and volcano in all profiles with socket %s", Name, socket)
		}
		return known, nil
	}
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
		// A window that is measured costs a ping with every answer.
		grpc.WithStaticStreamWindowSize(maxMessage), grpc.WithStaticConnWindowSize(maxMessage),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", socket, err)
	}
	made := &engine{
		conn:        conn,
		timeout:     args.Timeout.Duration,
		scheduler:   rand.Uint64(),
		reserved:    map[types.UID]*reservation{},
		dialects:    dialects,
		unconfirmed: map[types.UID]*reservation{},
	}
	engines[socket] = made
	return made, nil
}

// invoke sends one call with a deadline.
func (e *engine) invoke(ctx context.Context, call string, timeout time.Duration, request, reply any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return e.conn.Invoke(ctx, service+call, request, reply)
}

// do sends a call in the session. If the engine was restarted, the session is started again before.
func (e *engine) do(ctx context.Context, call string, timeout time.Duration, request, reply any) error {
	err := e.try(ctx, call, timeout, request, reply)
	if status.Code(err) != codes.FailedPrecondition {
		return err
	}
	e.disconnect()
	return e.try(ctx, call, timeout, request, reply)
}

func (e *engine) try(ctx context.Context, call string, timeout time.Duration, request, reply any) error {
	if err := e.start(ctx); err != nil {
		return err
	}
	e.session.RLock()
	defer e.session.RUnlock()
	return e.invoke(ctx, call, timeout, request, reply)
}

// disconnect makes the next call start the session again, with all reservations.
func (e *engine) disconnect() {
	e.session.Lock()
	defer e.session.Unlock()
	e.connected = false
}

// isConnected says whether the session has started.
func (e *engine) isConnected() bool {
	e.session.RLock()
	defer e.session.RUnlock()
	return e.connected
}

// start starts the session unless it has started.
func (e *engine) start(ctx context.Context) error {
	if e.isConnected() {
		return nil
	}
	e.session.Lock()
	defer e.session.Unlock()
	if e.connected {
		return nil
	}
	request := &proto.ConnectRequest{Version: version, Scheduler: e.scheduler, Dialects: e.dialects}
	reservations, unconfirmed, err := e.reservations(time.Now())
	if err != nil {
		return err
	}
	request.Reservations = reservations
	reply := &proto.ConnectReply{}
	if err := e.invoke(ctx, "Connect", e.timeout, request, reply); err != nil {
		return err
	}
	for _, uid := range unconfirmed {
		request := &proto.UnreserveRequest{Scheduler: e.scheduler, Uid: uid, MaybeBound: true}
		if err := e.invoke(ctx, "Unreserve", e.timeout, request, &proto.UnreserveReply{}); err != nil {
			return err
		}
	}
	e.reservedLock.Lock()
	clear(e.unconfirmed)
	e.reservedLock.Unlock()
	e.connected = true
	e.names.Store(nil)
	e.checksAll.Store(reply.ChecksAllPods)
	return nil
}

// reservations returns all reservations that the engine must have, and the uids of those whose binding may have happened.
func (e *engine) reservations(now time.Time) (all []*proto.Reservation, unconfirmed []string, err error) {
	e.reservedLock.Lock()
	defer e.reservedLock.Unlock()
	bytes := 0
	add := func(held *reservation) error {
		pod, err := whole(held.pod)
		if err != nil {
			return err
		}
		if bytes += len(pod.Json); bytes > maxObjects {
			pod.Json = nil
		}
		all = append(all, &proto.Reservation{Pod: pod, Node: held.node})
		return nil
	}
	for _, held := range e.reserved {
		if err := add(held); err != nil {
			return nil, nil, err
		}
	}
	for _, held := range e.unconfirmed {
		if err := add(held); err != nil {
			return nil, nil, err
		}
		unconfirmed = append(unconfirmed, uidOf(held.pod))
	}
	e.dropSeen(now)
	for _, bound := range e.bound {
		all = append(all, &proto.Reservation{Pod: bound.pod, Node: bound.node})
	}
	return all, unconfirmed, nil
}

// dropSeen forgets the bound pods whose binding the engine has seen by now.
func (e *engine) dropSeen(now time.Time) {
	seen := max(0, len(e.bound)-maxBound)
	for seen < len(e.bound) && now.Sub(e.bound[seen].at) >= seenAfter {
		seen++
	}
	// The backing array is replaced when it is full: deleting would move thousands of pods at every binding.
	e.bound = e.bound[seen:]
}

// preFilter evaluates a pod on all nodes, with all changes of pods up to a resource version.
func (e *engine) preFilter(ctx context.Context, pod *v1.Pod, podsVersion uint64) (*proto.PreFilterReply, *nodeNames, error) {
	request := &proto.PreFilterRequest{
		Scheduler:     e.scheduler,
		Pod:           named(pod),
		PodsVersion:   podsVersion,
		NominatedNode: pod.Status.NominatedNodeName,
	}
	e.reserving.Wait()
	names := e.names.Load()
	if names != nil {
		request.NodesGeneration = names.generation
	}
	reply := &proto.PreFilterReply{}
	if err := e.do(ctx, "PreFilter", e.timeout, request, reply); err != nil {
		return nil, nil, err
	}
	if reply.UnknownPod {
		object, err := whole(pod)
		if err != nil {
			return nil, nil, err
		}
		request.Pod = object
		reply = &proto.PreFilterReply{}
		if err := e.do(ctx, "PreFilter", e.timeout, request, reply); err != nil {
			return nil, nil, err
		}
	}
	e.checksAll.Store(reply.ChecksAllPods)
	if names == nil || names.generation != reply.NodesGeneration {
		names = &nodeNames{generation: reply.NodesGeneration, index: make(map[string]int, len(reply.Nodes))}
		for at, name := range reply.Nodes {
			names.index[name] = at
		}
		e.names.Store(names)
	}
	if count := len(names.index); len(reply.Fits) != (count+7)/8 {
		return nil, nil, fmt.Errorf("the engine answered about %d bytes of nodes, expected %d nodes", len(reply.Fits), count)
	}
	return reply, names, nil
}

// filterNode evaluates a pod on a node with pods added and removed.
func (e *engine) filterNode(ctx context.Context, pod *v1.Pod, node string, change *nodeChange) (*proto.Rejection, error) {
	e.reserving.Wait()
	request := &proto.FilterNodeRequest{Scheduler: e.scheduler, Pod: named(pod), Node: node}
	for _, added := range change.added {
		request.Added = append(request.Added, named(added))
	}
	for uid := range change.removed {
		request.Removed = append(request.Removed, uid)
	}
	reply := &proto.FilterNodeReply{}
	if err := e.do(ctx, "FilterNode", e.timeout, request, reply); err != nil {
		return nil, err
	}
	if !reply.UnknownPod {
		return reply.Rejection, nil
	}
	var err error
	if request.Pod, err = whole(pod); err != nil {
		return nil, err
	}
	request.Added = nil
	for _, added := range change.added {
		object, err := whole(added)
		if err != nil {
			return nil, err
		}
		request.Added = append(request.Added, object)
	}
	reply = &proto.FilterNodeReply{}
	err = e.do(ctx, "FilterNode", e.timeout, request, reply)
	return reply.Rejection, err
}

// reserve reserves a pod; the reason if the node rejects it.
func (e *engine) reserve(ctx context.Context, pod *v1.Pod, node string) (string, error) {
	rejection, err := e.tryReserve(ctx, pod, node)
	if status.Code(err) == codes.FailedPrecondition {
		e.disconnect()
		rejection, err = e.tryReserve(ctx, pod, node)
	}
	if err != nil {
		// It may be reserved: the next session has the reservations of this process and no others.
		e.disconnect()
	}
	return rejection, err
}

// tryReserve adds the reservation of this process together with the engine's: no session starts in between.
func (e *engine) tryReserve(ctx context.Context, pod *v1.Pod, node string) (string, error) {
	if err := e.start(ctx); err != nil {
		return "", err
	}
	e.session.RLock()
	defer e.session.RUnlock()
	request := &proto.ReserveRequest{Scheduler: e.scheduler, Pod: named(pod), Node: node}
	reply := &proto.ReserveReply{}
	err := e.invoke(ctx, "Reserve", e.timeout, request, reply)
	if err == nil && reply.UnknownPod {
		if request.Pod, err = whole(pod); err != nil {
			return "", err
		}
		reply = &proto.ReserveReply{}
		err = e.invoke(ctx, "Reserve", e.timeout, request, reply)
	}
	if err != nil || reply.Rejection != "" {
		return reply.Rejection, err
	}
	e.reservedLock.Lock()
	defer e.reservedLock.Unlock()
	e.reserved[pod.UID] = &reservation{pod: pod, node: node, annotations: reply.Annotations}
	return "", nil
}

// reservation returns the reservation of a pod.
func (e *engine) reservation(uid types.UID) *reservation {
	e.reservedLock.Lock()
	defer e.reservedLock.Unlock()
	return e.reserved[uid]
}

// recordBinding ends the reservation of a pod that was bound. The engine keeps its own until it sees the binding.
func (e *engine) recordBinding(uid types.UID, now time.Time) {
	e.reservedLock.Lock()
	defer e.reservedLock.Unlock()
	held := e.reserved[uid]
	if held == nil {
		return
	}
	delete(e.reserved, uid)
	e.bound = append(e.bound, boundPod{pod: named(held.pod), node: held.node, at: now})
	e.dropSeen(now)
}

// forget removes the reservation of a pod from this process.
func (e *engine) forget(uid types.UID) {
	e.reservedLock.Lock()
	defer e.reservedLock.Unlock()
	delete(e.reserved, uid)
}

// unreserve releases the reservation of a pod.
func (e *engine) unreserve(ctx context.Context, pod *v1.Pod) {
	held := e.reservation(pod.UID)
	if held == nil {
		return
	}
	// The binding cycle may be over because its context is.
	ctx = context.WithoutCancel(ctx)
	request := &proto.UnreserveRequest{Scheduler: e.scheduler, Uid: uidOf(pod), MaybeBound: held.maybeBound}
	e.session.RLock()
	e.forget(pod.UID)
	err := e.invoke(ctx, "Unreserve", e.timeout, request, &proto.UnreserveReply{})
	if err != nil && held.maybeBound {
		// The next session must not release it.
		e.reservedLock.Lock()
		e.unconfirmed[pod.UID] = held
		e.reservedLock.Unlock()
	}
	e.session.RUnlock()
	if err != nil {
		// The next session has the reservations of this process and no others.
		e.disconnect()
	}
}

// requeues waits for pods that a node takes now. A session can start meanwhile.
func (e *engine) requeues(ctx context.Context) ([]string, error) {
	const longest = 20 * time.Second
	if err := e.start(ctx); err != nil {
		return nil, err
	}
	reply := &proto.RequeuesReply{}
	err := e.invoke(ctx, "Requeues", longest+e.timeout, &proto.RequeuesRequest{Scheduler: e.scheduler}, reply)
	switch status.Code(err) {
	case codes.OK:
		e.checksAll.Store(reply.ChecksAllPods)
	case codes.FailedPrecondition:
		e.disconnect()
	}
	return reply.Pods, err
}
