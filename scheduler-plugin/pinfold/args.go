package pinfold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"pinfold.dev/scheduler-plugin/proto"
)

// Args are the arguments of the plugin in a KubeSchedulerConfiguration.
type Args struct {
	// Socket is the unix socket of the engine.
	Socket string `json:"socket"`
	// Timeout is the deadline of every call of the engine.
	Timeout metav1.Duration `json:"timeout"`
	// EngineAway says what happens to pods with NUMA needs while the engine cannot answer: Wait or Pass.
	EngineAway string `json:"engineAway"`
	// Koordinator are the arguments of Koordinator's plugin NodeNUMAResource, for nodes of its dialect. The engine
	// checks them.
	Koordinator json.RawMessage `json:"koordinator"`
	// Volcano are the arguments for nodes of Volcano's dialect.
	Volcano VolcanoArgs `json:"volcano"`
}

// VolcanoArgs are the arguments of Volcano's plugin numa-aware.
type VolcanoArgs struct {
	// Weight says how much its score counts, from 1 to 100.
	Weight uint32 `json:"weight"`
}

// maxDialectArgs is the most bytes of the arguments of another scheduler.
const maxDialectArgs = 64 << 10

// The values of Args.EngineAway.
const (
	wait = "Wait"
	pass = "Pass"
)

// parseArgs reads the arguments; those that are not set have their defaults.
func parseArgs(object runtime.Object) (*Args, error) {
	args := &Args{
		Socket:     "/run/pinfold/scheduler/engine.sock",
		Timeout:    metav1.Duration{Duration: 5 * time.Second},
		EngineAway: wait,
		Volcano:    VolcanoArgs{Weight: 1},
	}
	if object != nil {
		unknown, ok := object.(*runtime.Unknown)
		if !ok {
			return nil, fmt.Errorf("args of plugin %s: expected JSON, found %T", Name, object)
		}
		decoder := json.NewDecoder(bytes.NewReader(unknown.Raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(args); err != nil {
			return nil, fmt.Errorf("args of plugin %s: %w", Name, err)
		}
	}
	if !filepath.IsAbs(args.Socket) {
		return nil, fmt.Errorf("args of plugin %s: socket: expected an absolute path, found %q", Name, args.Socket)
	}
	if t := args.Timeout.Duration; t < 10*time.Millisecond || t > time.Minute {
		return nil, fmt.Errorf("args of plugin %s: timeout: expected 10ms to 1m, found %s", Name, t)
	}
	if args.EngineAway != wait && args.EngineAway != pass {
		return nil, fmt.Errorf("args of plugin %s: engineAway: expected Wait or Pass, found %q", Name, args.EngineAway)
	}
	if size := len(args.Koordinator); size > maxDialectArgs {
		return nil, fmt.Errorf("args of plugin %s: koordinator: expected at most %d bytes, found %d", Name, maxDialectArgs, size)
	}
	if weight := args.Volcano.Weight; weight < 1 || weight > 100 {
		return nil, fmt.Errorf("args of plugin %s: volcano.weight: expected 1 to 100, found %d", Name, weight)
	}
	return args, nil
}

// dialects returns the arguments of other schedulers' plugins for the engine.
func (a *Args) dialects() *proto.DialectArgs {
	return &proto.DialectArgs{Koordinator: a.Koordinator, VolcanoWeight: a.Volcano.Weight}
}
