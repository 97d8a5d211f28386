package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"pinfold.dev/generate/kubelet/call"
)

// The family checkpoint_restore: how the kubelet reads its state files, as it wrote them and changed.

type fileInput struct {
	File    string `json:"file"`
	Content string `json:"content"`
	Policy  string `json:"policy,omitempty"`
}

const (
	cpuFile    = "cpu_manager_state"
	memoryFile = "memory_manager_state"
)

// stateFile is a state file at the end of a random admission sequence.
func (g *generator) stateFile(file string, podLevel bool) (string, error) {
	for {
		_, input, err := g.admission(podLevel)
		if err != nil {
			return "", err
		}
		s := input.(*scenario)
		// What a state file has does not depend on the policy, and merging hints of many NUMA nodes takes long.
		s.TopologyPolicy = "none"
		if (file == cpuFile && s.CPUPolicy != "static") || (file == memoryFile && s.MemoryPolicy != "Static") {
			continue
		}
		text, err := json.Marshal(s)
		if err != nil {
			return "", err
		}
		found, n, err := play(g.world, text)
		if err != nil {
			return "", err
		}
		steps, _ := found["steps"].([]any)
		ended := len(steps) < len(s.Steps) || found["init_error"] != nil
		if !ended {
			last := steps[len(steps)-1].(map[string]any)
			_, failed := last["start_error"]
			_, panicked := last["panic"]
			ended = failed || panicked || last["hang"] == true
		}
		var content string
		if !ended {
			var bytes []byte
			bytes, err = os.ReadFile(filepath.Join(n.dir, file))
			content = string(bytes)
		}
		os.RemoveAll(n.dir)
		if err != nil {
			return "", err
		}
		if content != "" {
			return content, nil
		}
	}
}

// Since 1.37 a state file has a copy of its content as text.
var (
	copyChecksum = regexp.MustCompile(`"dataChecksum":[0-9]+`)
	dataCopy     = regexp.MustCompile(`"data":"(\\.|[^"\\])*",`)
)

func generateRestore(g *generator) (string, any, error) {
	input := fileInput{File: pick(g.Rand, cpuFile, memoryFile), Policy: "static"}
	if input.File == memoryFile {
		input.Policy = "Static"
	}
	content, err := g.stateFile(input.File, false)
	if err != nil {
		return "", nil, err
	}
	checksum := regexp.MustCompile(`"checksum":[0-9]+`)
	kinds := []string{"original", "other policy", "truncated", "empty file", "empty object", "wrong checksum", "zero checksum", "no checksum", "unknown field", "changed entry"}
	if strings.Contains(content, `"dataChecksum":`) {
		kinds = append(kinds, "changed copy", "wrong checksum of the copy", "no checksum of the copy", "empty copy", "no copy")
	}
	kind := kinds[g.number%len(kinds)]
	input.Content = content
	switch kind {
	case "other policy":
		input.Policy = "none"
	case "truncated":
		input.Content = content[:g.IntN(len(content))]
	case "empty file":
		input.Content = ""
	case "empty object":
		input.Content = "{}"
	case "wrong checksum":
		input.Content = checksum.ReplaceAllString(content, `"checksum":1`)
	case "zero checksum":
		input.Content = checksum.ReplaceAllString(content, `"checksum":0`)
	case "no checksum":
		input.Content = regexp.MustCompile(`,"checksum":[0-9]+`).ReplaceAllString(content, "")
	case "unknown field":
		input.Content = strings.Replace(content, "{", `{"extra":1,`, 1)
	case "changed entry":
		input.Content = strings.Replace(content, `"p0"`, `"q0"`, 1)
	case "changed copy":
		input.Content = strings.Replace(content, `\"policyName\":`, `\"policyname\":`, 1)
	case "wrong checksum of the copy":
		input.Content = copyChecksum.ReplaceAllString(content, `"dataChecksum":1`)
	case "no checksum of the copy":
		input.Content = copyChecksum.ReplaceAllString(content, `"dataChecksum":0`)
	case "empty copy":
		input.Content = dataCopy.ReplaceAllString(content, `"data":"",`)
	case "no copy":
		input.Content = dataCopy.ReplaceAllString(copyChecksum.ReplaceAllString(content, `"dataChecksum":0`), "")
	}
	return kind, input, nil
}

func decideRestore(w *world, text json.RawMessage) (any, error) {
	var input fileInput
	if err := json.Unmarshal(text, &input); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(w.scratch, "restore")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, input.File), []byte(input.Content), 0o644); err != nil {
		return nil, err
	}
	failed := func(err error) any {
		return map[string]any{"error": strings.ReplaceAll(err.Error(), dir+"/", "")}
	}
	if input.File == memoryFile {
		results := call.Func(memorystate.NewCheckpointState, dir, input.File, input.Policy)
		if err := call.Error(results); err != nil {
			return failed(err), nil
		}
		restored := results[0].(memorystate.State)
		assignments := map[string]map[string][]block{}
		for pod, containers := range restored.GetMemoryAssignments() {
			assignments[pod] = map[string][]block{}
			for name, blocks := range containers {
				assignments[pod][name] = shownBlocks(blocks)
			}
		}
		return map[string]any{"error": nil, "machine_state": machineState(restored), "assignments": assignments}, nil
	}
	known := containermap.NewContainerMap()
	known.Add("podA", "c0", "cid1")
	known.Add("podB", "c1", "cid2")
	results := call.Func(cpustate.NewCheckpointState, dir, input.File, input.Policy, known)
	if err := call.Error(results); err != nil {
		return failed(err), nil
	}
	restored := results[0].(cpustate.State)
	assignments := map[string]map[string]string{}
	for pod, containers := range restored.GetCPUAssignments() {
		assignments[pod] = map[string]string{}
		for name, cpus := range containers {
			assignments[pod][name] = cpus.String()
		}
	}
	return map[string]any{"error": nil, "default_cpuset": restored.GetDefaultCPUSet().String(), "assignments": assignments}, nil
}
