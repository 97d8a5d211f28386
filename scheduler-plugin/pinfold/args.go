package pinfold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Args are the arguments of the plugin in a KubeSchedulerConfiguration.
type Args struct {
	// Socket is the unix socket of the engine.
	Socket string `json:"socket"`
	// Timeout is the deadline of every call of the engine.
	Timeout metav1.Duration `json:"timeout"`
	// EngineAway says what happens to pods with NUMA needs while the engine cannot answer: Wait or Pass.
	EngineAway string `json:"engineAway"`
}

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
	return args, nil
}
