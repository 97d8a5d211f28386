package pinfold

import (
	"cmp"
	"context"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientset "k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"pinfold.dev/scheduler-plugin/proto"
)

func pod(name string, requests, limits v1.ResourceList) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "main", Resources: v1.ResourceRequirements{Requests: requests, Limits: limits},
		}}},
	}
}

func amounts(pairs ...string) v1.ResourceList {
	list := v1.ResourceList{}
	for at := 0; at < len(pairs); at += 2 {
		list[v1.ResourceName(pairs[at])] = resource.MustParse(pairs[at+1])
	}
	return list
}

func guaranteed(name string) *v1.Pod {
	all := amounts("cpu", "2", "memory", "1Gi")
	return pod(name, all, all)
}

func TestOnlyGuaranteedPodsDevicesAndOtherSchedulersPodsHaveNUMANeeds(t *testing.T) {
	labelled := pod("labelled", nil, nil)
	labelled.Labels = map[string]string{"koordinator.sh/qosClass": "LSR"}
	annotated := pod("annotated", nil, nil)
	annotated.Annotations = map[string]string{"volcano.sh/numa-topology-policy": "restricted"}
	device := amounts("example.com/nic", "1")
	for _, one := range []struct {
		pod   *v1.Pod
		needs bool
	}{
		{guaranteed("guaranteed"), true},
		{pod("device", device, device), true},
		{labelled, true},
		{annotated, true},
		{pod("burstable", amounts("cpu", "1"), nil), false},
		{pod("best-effort", nil, nil), false},
	} {
		if found := needsNUMA(one.pod); found != one.needs {
			t.Errorf("%s: found %v, expected %v", one.pod.Name, found, one.needs)
		}
	}
}

func TestAMirrorPodHasTheUIDOfItsStaticPodUnlessItClaimsAnotherPodsUID(t *testing.T) {
	mirror := guaranteed("mirror")
	mirror.Annotations = map[string]string{mirrorAnnotation: "0c5f1a2b3d4e5f60718293a4b5c6d7e8"}
	if found := uidOf(mirror); found != "0c5f1a2b3d4e5f60718293a4b5c6d7e8" {
		t.Error(found)
	}
	mirror.Annotations[mirrorAnnotation] = "123e4567-e89b-42d3-a456-426614174000"
	if found := uidOf(mirror); found != "uid-mirror" {
		t.Error(found)
	}
}

func TestArgumentsHaveDefaultsAndUnknownOrBadOnesAreRejected(t *testing.T) {
	args, err := parseArgs(nil)
	if err != nil || args.EngineAway != wait || args.Volcano.Weight != 1 || args.Timeout.Duration != 5*time.Second {
		t.Fatal(args, err)
	}
	for _, bad := range []string{
		`{"sockt": "/a"}`, `{"socket": "a"}`, `{"timeout": "1ns"}`, `{"timeout": "2h"}`, `{"engineAway": "Maybe"}`, `[]`,
		`{"volcano": {"weight": 0}}`, `{"volcano": {"weight": 101}}`, `{"volcano": {"wait": 1}}`,
		`{"koordinator": "` + strings.Repeat("a", maxDialectArgs) + `"}`,
	} {
		if args, err := parseArgs(&runtime.Unknown{Raw: []byte(bad)}); err == nil {
			t.Errorf("%s was accepted: %v", bad, args)
		}
	}
}

func TestVerdictsAreUnpackedByIndexAndUnknownNodesAreRejected(t *testing.T) {
	names := &nodeNames{index: map[string]int{"a": 0, "b": 1, "c": 9}}
	for at := 2; at < 9; at++ {
		names.index[string(rune('l'+at))] = at
	}
	found := newVerdicts(&proto.PreFilterReply{
		Fits:   []byte{0b01, 0b10},
		Scores: []byte{7, 50},
		Rejections: []*proto.Rejection{
			{Reason: "full", Nodes: []byte{0b10, 0}},
			{Reason: "later", Kind: proto.RejectionKind_TEMPORARY, Nodes: []byte{0b11111100, 1}},
		},
	}, names)
	if found.status("a") != nil || found.status("c") != nil || found.scores[0] != 7 || found.scores[9] != 50 {
		t.Error(found)
	}
	if status := found.status("b"); status.Code() != fwk.Unschedulable || status.Message() != "full" {
		t.Error(status)
	}
	if status := found.status("new"); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Error(status)
	}
	if found.isTemporary(1) || !found.isTemporary(8) {
		t.Error("only the nodes of the second reason are temporary")
	}
}

func TestAPodThatIsRemovedAndAddedAgainIsNoChangeAndAClonesChangesAreItsOwn(t *testing.T) {
	all := &verdicts{changes: map[string]*nodeChange{}}
	victim, nominated := guaranteed("victim"), guaranteed("nominated")
	all.change("a").remove(victim)
	all.change("a").add(nominated)
	clone := all.Clone().(*verdicts)
	clone.change("a").add(victim)
	clone.change("a").remove(nominated)
	if !clone.changes["a"].isEmpty() {
		t.Error(clone.changes["a"])
	}
	if change := all.changes["a"]; len(change.added) != 1 || len(change.removed) != 1 {
		t.Error(change)
	}
}

// fakeEngine answers calls and records them.
type fakeEngine struct {
	calls    []string
	requests []*proto.ConnectRequest
	// restarted makes the next call fail as after a restart.
	restarted bool
	// failing is the name of a call that fails, failure its code.
	failing string
	failure codes.Code
	// podsVersion and nominated are those of the last PreFilter.
	podsVersion uint64
	nominated   string
	// rejection is the reason of Reserve. It answers when blocked is closed, if there is one.
	rejection string
	blocked   chan struct{}
}

func (f *fakeEngine) handle(call string, stream grpc.ServerStream) error {
	if call == "Reserve" && f.blocked != nil {
		<-f.blocked
	}
	f.calls = append(f.calls, call)
	if call == "Connect" {
		request := &proto.ConnectRequest{}
		if err := stream.RecvMsg(request); err != nil {
			return err
		}
		f.requests = append(f.requests, request)
		f.restarted = false
		return stream.SendMsg(&proto.ConnectReply{Version: version})
	}
	if f.restarted {
		return status.Error(codes.FailedPrecondition, "connect first")
	}
	if call == f.failing {
		return status.Error(cmp.Or(f.failure, codes.Internal), "failing")
	}
	switch call {
	case "PreFilter":
		request := &proto.PreFilterRequest{}
		if err := stream.RecvMsg(request); err != nil {
			return err
		}
		f.podsVersion, f.nominated = request.PodsVersion, request.NominatedNode
		if len(request.Pod.Json) == 0 {
			return stream.SendMsg(&proto.PreFilterReply{UnknownPod: true})
		}
		reply := &proto.PreFilterReply{NodesGeneration: 5, Fits: []byte{1}, Scores: []byte{100}}
		if request.NodesGeneration != 5 {
			reply.Nodes = []string{"a"}
		}
		return stream.SendMsg(reply)
	case "Reserve":
		return stream.SendMsg(&proto.ReserveReply{Rejection: f.rejection, Annotations: map[string]string{"cpus": "0-1"}})
	}
	return stream.SendMsg(&proto.UnreserveReply{})
}

// serve starts a fake engine and connects to it.
func serve(t *testing.T) (*fakeEngine, *engine) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "engine.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	fake := &fakeEngine{}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		return fake.handle(filepath.Base(method), stream)
	}))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connected, err := connect(&Args{
		Socket: socket, Timeout: metav1.Duration{Duration: 10 * time.Second},
		Koordinator: []byte(`{"defaultCPUBindPolicy":"SpreadByPCPUs"}`), Volcano: VolcanoArgs{Weight: 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	return fake, connected
}

func TestThePodIsSentWithItsObjectOnlyIfTheEngineLacksItAndNamesOncePerGeneration(t *testing.T) {
	fake, engine := serve(t)
	one := guaranteed("one")
	one.Status.NominatedNodeName = "a"
	for range 2 {
		reply, names, err := engine.preFilter(context.Background(), one, 7)
		if err != nil {
			t.Fatal(err)
		}
		if newVerdicts(reply, names).status("a") != nil {
			t.Error("the node takes the pod")
		}
	}
	expected := []string{"Connect", "PreFilter", "PreFilter", "PreFilter", "PreFilter"}
	if !slices.Equal(fake.calls, expected) || fake.podsVersion != 7 || fake.nominated != "a" {
		t.Error(fake.calls, fake.podsVersion, fake.nominated)
	}
}

func TestTheEngineGetsTheArgumentsOfOtherSchedulersAndProfilesOfOneSocketHaveTheSame(t *testing.T) {
	fake, engine := serve(t)
	if _, _, err := engine.preFilter(context.Background(), guaranteed("one"), 0); err != nil {
		t.Fatal(err)
	}
	args := fake.requests[0].Dialects
	if string(args.Koordinator) != `{"defaultCPUBindPolicy":"SpreadByPCPUs"}` || args.VolcanoWeight != 7 {
		t.Error(args)
	}
	socket := strings.TrimPrefix(engine.conn.Target(), "unix://")
	same := &Args{Socket: socket, Koordinator: args.Koordinator, Volcano: VolcanoArgs{Weight: 7}}
	if again, err := connect(same); err != nil || again != engine {
		t.Error(again, err)
	}
	same.Volcano.Weight = 8
	if _, err := connect(same); err == nil {
		t.Error("another weight was accepted")
	}
}

func TestARestartedEngineGetsAllReservations(t *testing.T) {
	fake, engine := serve(t)
	ctx := context.Background()
	for _, name := range []string{"kept", "bound", "released"} {
		if reason, err := engine.reserve(ctx, guaranteed(name), "a"); reason != "" || err != nil {
			t.Fatal(reason, err)
		}
	}
	if held := engine.reservation("uid-kept"); held.annotations["cpus"] != "0-1" {
		t.Error(held)
	}
	engine.recordBinding("uid-bound", time.Now())
	engine.unreserve(ctx, guaranteed("released"))
	fake.restarted = true
	if _, _, err := engine.preFilter(ctx, guaranteed("next"), 0); err != nil {
		t.Fatal(err)
	}
	last := fake.requests[len(fake.requests)-1]
	if len(fake.requests) != 2 || len(last.Reservations) != 2 || last.Reservations[0].Pod.Uid != "uid-kept" {
		t.Fatal(fake.requests)
	}
	if bound := last.Reservations[1].Pod; bound.Uid != "uid-bound" || len(bound.Json) != 0 {
		t.Error("the engine may not have seen the binding yet:", bound)
	}
}

func TestBoundPodsAreNamedUntilTheEngineHasSeenThem(t *testing.T) {
	engine := &engine{reserved: map[types.UID]*reservation{}}
	start := time.Now()
	bind := func(name string, at time.Time) {
		bound := guaranteed(name)
		engine.reserved[bound.UID] = &reservation{pod: bound, node: "a"}
		engine.recordBinding(bound.UID, at)
	}
	named := func(at time.Time) int {
		all, _, err := engine.reservations(at)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	bind("first", start)
	bind("second", start.Add(seenAfter/2))
	if found := named(start.Add(seenAfter / 2)); found != 2 {
		t.Error(found)
	}
	if found := named(start.Add(seenAfter)); found != 1 {
		t.Error(found)
	}
	for at := range maxBound + 10 {
		bind(strconv.Itoa(at), start.Add(seenAfter))
	}
	if found := named(start.Add(seenAfter)); found != maxBound {
		t.Error(found)
	}
}

func TestReservationsBeyondTheLimitOfAMessageAreNamedWithoutTheirObjects(t *testing.T) {
	engine := &engine{reserved: map[types.UID]*reservation{}}
	for at := range 4 {
		big := guaranteed(strconv.Itoa(at))
		big.Annotations = map[string]string{"text": strings.Repeat("x", 800<<10)}
		big.Spec.NodeName = "a"
		engine.reserved[big.UID] = &reservation{pod: big, node: "a"}
	}
	all, _, err := engine.reservations(time.Now())
	objects := 0
	for _, one := range all {
		if len(one.Pod.Json) > 0 {
			objects++
		}
		if strings.Contains(string(one.Pod.Json), "nodeName") {
			t.Error("the engine would take the pod for a bound one")
		}
	}
	if err != nil || len(all) != 4 || objects != 2 {
		t.Error(err, len(all), objects)
	}
}

func TestAPodThatMayBeBoundKeepsItsReservationIfUnreserveFails(t *testing.T) {
	fake, engine := serve(t)
	ctx := context.Background()
	if _, err := engine.reserve(ctx, guaranteed("one"), "a"); err != nil {
		t.Fatal(err)
	}
	engine.reservation("uid-one").maybeBound = true
	fake.failing = "Unreserve"
	engine.unreserve(ctx, guaranteed("one"))
	fake.failing, fake.calls = "", nil
	if _, _, err := engine.preFilter(ctx, guaranteed("next"), 0); err != nil {
		t.Fatal(err)
	}
	last := fake.requests[len(fake.requests)-1]
	if len(last.Reservations) != 1 || last.Reservations[0].Pod.Uid != "uid-one" {
		t.Error(last)
	}
	if !slices.Equal(fake.calls[:2], []string{"Connect", "Unreserve"}) || len(engine.unconfirmed) != 0 {
		t.Error(fake.calls, engine.unconfirmed)
	}
}

func TestOnlyFailuresOfTheEngineMakeAllPodsTryAgain(t *testing.T) {
	for code, isPod := range map[codes.Code]bool{
		codes.InvalidArgument: true, codes.OutOfRange: true, codes.ResourceExhausted: true,
		codes.Unavailable: false, codes.DeadlineExceeded: false, codes.Aborted: false,
	} {
		fake, engine := serve(t)
		fake.failing, fake.failure = "PreFilter", code
		informers := informers.NewSharedInformerFactory(clientset.NewClientset(), 0)
		pods := informers.Core().V1().Pods()
		plugin := &Plugin{
			args: &Args{EngineAway: wait}, engine: engine, pods: pods.Informer(),
			waiting: newWaitingPods(pods.Lister()), failed: make(chan struct{}, 1),
		}
		_, answer := plugin.PreFilter(context.Background(), framework.NewCycleState(), guaranteed("one"), nil)
		if answer.Code() != fwk.UnschedulableAndUnresolvable || (len(plugin.failed) == 0) != isPod {
			t.Error(code, answer, len(plugin.failed))
		}
	}
}

func TestPodsThatAreGoneDoNotKeepOthersFromBeingRemembered(t *testing.T) {
	informers := informers.NewSharedInformerFactory(clientset.NewClientset(), 0)
	waiting := newWaitingPods(informers.Core().V1().Pods().Lister())
	for at := range maxWaiting {
		waiting.add(guaranteed("gone-" + strconv.Itoa(at)))
	}
	waiting.add(guaranteed("new"))
	if _, known := waiting.byUID["uid-new"]; !known || len(waiting.byUID) != 1 {
		t.Error(known, len(waiting.byUID))
	}
}

func TestABindingMayHaveHappenedUnlessTheServerRefusedIt(t *testing.T) {
	refused := apierrors.NewForbidden(v1.Resource("pods"), "one", nil)
	late := apierrors.NewTimeoutError("the request did not complete in time", 0)
	for _, one := range []struct {
		failure error
		maybe   bool
	}{{refused, false}, {late, true}, {apierrors.NewInternalError(io.EOF), true}, {io.EOF, true}} {
		handle := handleOf{client: clientset.NewClientset(guaranteed("one"))}
		held := &reservation{}
		plugin := &Plugin{handle: handle}
		if plugin.wasBound(context.Background(), guaranteed("one"), "a", held, one.failure) || held.maybeBound != one.maybe {
			t.Error(one.failure, held.maybeBound)
		}
	}
}

// handleOf is a handle that only has a client, and perhaps a pod that waits for Permit.
type handleOf struct {
	fwk.Handle
	client  kubernetes.Interface
	waiting *waitingPod
}

func (h handleOf) ClientSet() kubernetes.Interface { return h.client }

func (h handleOf) GetWaitingPod(types.UID) fwk.WaitingPod {
	if h.waiting == nil {
		return nil
	}
	return h.waiting
}

func TestAFailedReserveOrUnreserveStartsTheSessionAgainWithoutThePod(t *testing.T) {
	for _, call := range []string{"Reserve", "Unreserve"} {
		fake, engine := serve(t)
		ctx := context.Background()
		fake.failing = call
		_, err := engine.reserve(ctx, guaranteed("one"), "a")
		if (err != nil) != (call == "Reserve") {
			t.Fatal(call, err)
		}
		engine.unreserve(ctx, guaranteed("one"))
		if engine.isConnected() {
			t.Errorf("%s: the session must start again", call)
		}
		fake.failing = ""
		if _, err := engine.reserve(ctx, guaranteed("two"), "a"); err != nil {
			t.Fatal(err)
		}
		if last := fake.requests[len(fake.requests)-1]; len(fake.requests) != 2 || len(last.Reservations) != 0 {
			t.Error(call, fake.requests)
		}
	}
}

// reserving makes a plugin with a fake engine and a client, and the state of a pod that PreFilter has evaluated.
func reserving(t *testing.T) (*fakeEngine, *Plugin, *clientset.Clientset, fwk.CycleState) {
	t.Helper()
	fake, engine := serve(t)
	client := clientset.NewClientset(guaranteed("one"))
	informers := informers.NewSharedInformerFactory(client, 0)
	plugin := &Plugin{
		engine: engine, handle: handleOf{client: client}, failed: make(chan struct{}, 1),
		waiting: newWaitingPods(informers.Core().V1().Pods().Lister()),
	}
	state := framework.NewCycleState()
	state.Write(stateKey, &verdicts{})
	return fake, plugin, client, state
}

func TestTheNextPodIsEvaluatedAfterThePodBeforeIsReserved(t *testing.T) {
	fake, plugin, _, state := reserving(t)
	fake.blocked = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	if status := plugin.Reserve(ctx, state, guaranteed("one"), "a"); !status.IsSuccess() {
		t.Fatal(status)
	}
	// As at the end of a scheduling cycle.
	cancel()
	evaluated := make(chan error)
	go func() {
		_, _, err := plugin.engine.preFilter(context.Background(), guaranteed("two"), 0)
		evaluated <- err
	}()
	select {
	case err := <-evaluated:
		t.Fatal("evaluated before", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(fake.blocked)
	if err := <-evaluated; err != nil {
		t.Fatal(err)
	}
	if expected := []string{"Connect", "Reserve", "PreFilter", "PreFilter"}; !slices.Equal(fake.calls, expected) {
		t.Error(fake.calls)
	}
}

func TestAPodIsBoundOnlyIfItIsReserved(t *testing.T) {
	for _, rejection := range []string{"", "its place was taken"} {
		fake, plugin, client, state := reserving(t)
		fake.rejection = rejection
		ctx := context.Background()
		one := guaranteed("one")
		if status := plugin.Reserve(ctx, state, one, "a"); !status.IsSuccess() {
			t.Fatal(status)
		}
		status := plugin.Bind(ctx, state, one, "a")
		if status.IsSuccess() != (rejection == "") || status.Message() != rejection {
			t.Error(status)
		}
		if bound := len(client.Actions()) == 1; bound != (rejection == "") {
			t.Error(client.Actions())
		}
		plugin.Unreserve(ctx, state, one, "a")
	}
}

func TestAPodThatWaitsForPermitIsRejectedWithItsReservation(t *testing.T) {
	fake, plugin, client, state := reserving(t)
	fake.failing = "Reserve"
	waiting := &waitingPod{}
	plugin.handle = handleOf{client: client, waiting: waiting}
	ctx := context.Background()
	plugin.Reserve(ctx, state, guaranteed("one"), "a")
	plugin.engine.reserving.Wait()
	if !strings.Contains(waiting.message, "the NUMA engine did not answer") || len(plugin.failed) != 1 {
		t.Error(waiting.message, len(plugin.failed))
	}
}

// waitingPod is a pod that waits for Permit.
type waitingPod struct {
	fwk.WaitingPod
	message string
}

func (w *waitingPod) Reject(_, message string) bool {
	w.message = message
	return true
}
