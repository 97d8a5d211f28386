// Vectors makes test vectors with the kubelet's own packages, or replays the inputs of a file and compares what they
// decide with what the file expects.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
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

// record is a line of a vector file.
type record struct {
	Case    string          `json:"case,omitempty"`
	ID      string          `json:"id,omitempty"`
	Tag     string          `json:"tag,omitempty"`
	Style   string          `json:"style,omitempty"`
	Machine *machine        `json:"machine,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Expect  json.RawMessage `json:"expect"`
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

// kubelet is the exact version that was built in.
var kubelet string

func main() {
	log.SetFlags(0)
	klog.SetLogger(logr.Discard())
	seed := flag.Uint64("seed", 1, "the seed: the same one makes the same bytes")
	out := flag.String("out", "", "the folder for the vector files")
	cases := flag.Int("cases", 0, "cases of each family (0: the family's own number)")
	merges := flag.Uint64("merges", 1_000_000, "the most combinations of hints that an admission sequence may merge (0: any)")
	only := flag.String("family", "", "families to make, separated by commas (all)")
	replay := flag.String("replay", "", "a vector file whose inputs are decided again and compared")
	flag.Parse()
	// The kubelet synchronizes every state file with the disk: in memory that takes no time.
	memory := "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		memory = ""
	}
	scratch, err := os.MkdirTemp(memory, "vectors")
	check(err)
	defer os.RemoveAll(scratch)
	w := &world{machines: map[string]*machine{}, scratch: scratch, merges: *merges}
	setGates(map[string]bool{"CPUManagerPolicyAlphaOptions": true})
	known := families
	if hasGate("PodLevelResourceManagers") {
		known = append(known, podLevelFamilies...)
	}
	switch {
	case *replay != "":
		if different := compare(w, known, *replay); different > 0 {
			os.RemoveAll(scratch)
			os.Exit(1)
		}
	case *out != "":
		check(os.MkdirAll(*out, 0o755))
		check(os.WriteFile(filepath.Join(*out, "kubelet-version"), []byte(kubelet+"\n"), 0o644))
		check(w.generateMachines(*seed, *out))
		for _, f := range known {
			if *only == "" || strings.Contains(","+*only+",", ","+f.name+",") {
				check(w.generateFamily(f, *seed, *cases, *out))
			}
		}
	default:
		log.Fatal("vectors: give -out FOLDER or -replay FILE")
	}
}

func check(err error) {
	if err != nil {
		log.Fatal("vectors: ", err)
	}
}

func random(seed uint64, name string, number int) *rand.Rand {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%d", name, number)
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

func (w *world) generateMachines(seed uint64, out string) error {
	var lines bytes.Buffer
	for number := range 40 {
		m := generateMachine(random(seed, "machine", number), fmt.Sprintf("m%03d", number))
		w.machines[m.ID], w.order = m, append(w.order, m.ID)
		expect, err := discovered(m)
		if err != nil {
			return err
		}
		if err := writeLine(&lines, record{ID: m.ID, Style: m.Style, Machine: m, Expect: expect}); err != nil {
			return err
		}
	}
	return write(filepath.Join(out, "topologies.jsonl.gz"), lines.Bytes())
}

func (w *world) generateFamily(f family, seed uint64, cases int, out string) error {
	if cases == 0 {
		cases = f.cases
	}
	var lines bytes.Buffer
	for number := range cases {
		g := &generator{random(seed, f.name, number), w, number}
		tag, input, err := f.generate(g)
		if err != nil {
			return fmt.Errorf("%s %d: %w", f.name, number, err)
		}
		text, err := json.Marshal(input)
		if err != nil {
			return err
		}
		expect, err := f.decide(w, text)
		if err != nil {
			return fmt.Errorf("%s %d: %w", f.name, number, err)
		}
		found, err := json.Marshal(expect)
		if err != nil {
			return err
		}
		line := record{Case: fmt.Sprintf("%s-%05d", f.name, number), Tag: tag, Input: text, Expect: found}
		if err := writeLine(&lines, line); err != nil {
			return err
		}
	}
	return write(filepath.Join(out, f.name+".jsonl.gz"), lines.Bytes())
}

func writeLine(to *bytes.Buffer, line record) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(line)
}

func write(path string, lines []byte) error {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := zip.Write(lines); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, packed.Bytes(), 0o644)
}

// compare decides the inputs of a file again and prints every case with another answer.
func compare(w *world, known []family, path string) int {
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".jsonl")
	for _, beside := range []string{"topologies.jsonl", "topologies.jsonl.gz"} {
		lines, err := read(filepath.Join(filepath.Dir(path), beside))
		if err != nil {
			continue
		}
		for _, line := range lines {
			w.machines[line.Machine.ID] = line.Machine
		}
	}
	lines, err := read(path)
	check(err)
	if name == "topologies" {
		different := 0
		for _, line := range lines {
			found, err := discovered(line.Machine)
			check(err)
			different += report(line, found)
		}
		fmt.Printf("%s: %d cases, %d different\n", name, len(lines), different)
		return different
	}
	for _, f := range known {
		if f.name != name {
			continue
		}
		different := 0
		for _, line := range lines {
			expect, err := f.decide(w, line.Input)
			if err != nil {
				fmt.Printf("%s: %v\n", line.Case, err)
				different++
				continue
			}
			found, err := json.Marshal(expect)
			check(err)
			different += report(line, found)
		}
		fmt.Printf("%s: %d cases, %d different\n", name, len(lines), different)
		return different
	}
	check(fmt.Errorf("%s: no family of this name in this version", path))
	return 0
}

func report(line record, found []byte) int {
	var before, now any
	check(json.Unmarshal(line.Expect, &before))
	check(json.Unmarshal(found, &now))
	if reflect.DeepEqual(before, now) {
		return 0
	}
	fmt.Printf("%s%s %s:\n  expected %s\n  found    %s\n", line.Case, line.ID, line.Tag, line.Expect, found)
	return 1
}

func read(path string) ([]record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var from io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if from, err = gzip.NewReader(file); err != nil {
			return nil, err
		}
	}
	var lines []record
	reader := bufio.NewReader(from)
	decoder := json.NewDecoder(reader)
	for decoder.More() {
		var line record
		if err := decoder.Decode(&line); err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}
