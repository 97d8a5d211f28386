// The kubelet's generator: vectors of the CPU, memory, device and topology managers of one version.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"pinfold.dev/generate/record"
)

// family is a kind of test vectors: how inputs are chosen, and what the kubelet decides about one.
type family struct {
	name     string
	cases    int
	generate func(*generator) (tag string, input any, err error)
	decide   func(*world, json.RawMessage) (any, error)
}

var families = []family{
	{"merge", 600, generateMerge, decideMerge},
	{"cpu_take", 800, generateTake, decideTake},
	{"cpu_hints", 400, generateCPUHints, decideCPUHints},
	{"memory", 150, generateMemory, decideMemory},
	{"device_hints", 400, generateDeviceHints, decideDeviceHints},
	{"pod_cpu_requests", 300, generatePodRequests, decidePodCPURequests},
	{"pod_memory_requests", 300, generatePodRequests, decidePodMemoryRequests},
	{"config_errors", 120, generateConfigErrors, decideConfigErrors},
	{"admission", 250, generateAdmission, decideAdmission},
	{"checkpoint_restore", 120, generateRestore, decideRestore},
}

// podLevelFamilies are made with the gate PodLevelResourceManagers, by versions that have it.
var podLevelFamilies = []family{
	{"admission_podlevel", 100, generateAdmissionPodLevel, decideAdmission},
}

// world is what the cases of a folder refer to, and the folder for state files.
type world struct {
	machines map[string]*machine
	order    []string
	scratch  string
	merges   uint64
}

// generator is what chooses inputs: its random numbers depend on the seed, the family and the number of the case only.
type generator struct {
	*rand.Rand
	*world
	number int
}

func (g *generator) machine() *machine { return g.machines[g.order[g.IntN(len(g.order))]] }

// program is the exact version that was built in.
var program string

var check = record.Check

func main() {
	klog.SetLogger(logr.Discard())
	// The kubelet synchronizes every state file with the disk: in memory that takes no time.
	memory := "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		memory = ""
	}
	scratch, err := os.MkdirTemp(memory, "vectors")
	check(err)
	w := &world{machines: map[string]*machine{}, scratch: scratch}
	flag.Uint64Var(&w.merges, "merges", 1_000_000, "the most combinations of hints that an admission sequence may merge (0: any)")
	setGates(map[string]bool{"CPUManagerPolicyAlphaOptions": true})
	code := record.Main(record.Program{
		Families:     w.families,
		Before:       w.generateMachines,
		BeforeReplay: w.readMachines,
		Operations:   w.operations(),
	})
	os.RemoveAll(scratch)
	os.Exit(code)
}

// families are those of this version, for the generator that all programs share.
func (w *world) families() []record.Family {
	known := families
	if hasGate("PodLevelResourceManagers") {
		known = append(known, podLevelFamilies...)
	}
	var shared []record.Family
	for _, f := range known {
		shared = append(shared, record.Family{
			Name:  f.name,
			Cases: f.cases,
			Generate: func(random *rand.Rand, number int) (string, any, error) {
				return f.generate(&generator{random, w, number})
			},
			Decide: func(input json.RawMessage) (any, error) { return f.decide(w, input) },
		})
	}
	return shared
}

// generateMachines writes the machines of a folder and what the CPU manager derives from them.
func (w *world) generateMachines(seed uint64, out string) error {
	if err := os.WriteFile(filepath.Join(out, "kubelet-version"), []byte(program+"\n"), 0o644); err != nil {
		return err
	}
	var lines bytes.Buffer
	for number := range 40 {
		m := generateMachine(record.Random(seed, "machine", number), fmt.Sprintf("m%03d", number))
		w.machines[m.ID], w.order = m, append(w.order, m.ID)
		found, err := discovered(m)
		if err != nil {
			return err
		}
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		expect, err := json.Marshal(found)
		if err != nil {
			return err
		}
		if err := record.WriteLine(&lines, record.Line{ID: m.ID, Style: m.Style, Machine: text, Expect: expect}); err != nil {
			return err
		}
	}
	return record.WriteFile(filepath.Join(out, "topologies.jsonl.gz"), lines.Bytes())
}

// readMachines reads the machines beside a file that is replayed, and replays them if that is the file.
func (w *world) readMachines(path string) (bool, int, error) {
	for _, beside := range []string{"topologies.jsonl", "topologies.jsonl.gz"} {
		lines, err := record.ReadFile(filepath.Join(filepath.Dir(path), beside))
		if err != nil {
			continue
		}
		for _, line := range lines {
			m, err := machineOf(line)
			if err != nil {
				return false, 0, err
			}
			w.machines[m.ID] = m
		}
		if beside == filepath.Base(path) {
			different := record.Replay("topologies", lines, func(line record.Line) (any, error) {
				m, err := machineOf(line)
				if err != nil {
					return nil, err
				}
				return discovered(m)
			})
			return true, different, nil
		}
	}
	return false, 0, nil
}

func machineOf(line record.Line) (*machine, error) {
	m := &machine{}
	return m, json.Unmarshal(line.Machine, m)
}
