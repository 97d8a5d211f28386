package record

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"runtime/debug"
)

// Measured is a row: what an operation of the original costs, as our benchmark names it.
type Measured struct {
	Name string `json:"name"`
	// CPUNs is the median of the rounds in nanoseconds of CPU time; 0 if the operation was not finished.
	CPUNs float64 `json:"cpu_ns,omitempty"`
	// Stood says how far an operation came that was not finished within the limit.
	Stood string `json:"stood,omitempty"`
}

// Operation is what a benchmark repeats, and how much there is to do in one repetition, if that is known.
type Operation struct {
	Run   func()
	Total uint64
}

const (
	rounds = 5
	// The shortest round and the CPU time after which an operation is not repeated, and one that counts is given up.
	shortest, long, limit = 50 * time.Millisecond, 2 * time.Second, 20 * time.Second
)

// unfinished is the panic of an operation that reached the limit.
type unfinished struct{ done uint64 }

var (
	counted  uint64
	deadline time.Duration
)

// Count is called by operations that may take years, once for each thing that they do. It ends them at the limit.
func Count() {
	counted++
	if counted&0xfffff == 0 && deadline > 0 && cpuTime() > deadline {
		panic(unfinished{counted})
	}
}

// cpuTime is the CPU time of this process so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	Check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Bench measures every row of our benchmark's report for which there is an operation of the original, and prints one line
// of JSON for each. The first word of a name is its group.
func Bench(path string, operations map[string]func(fields []string) (Operation, error)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var rows []struct{ Name string }
	if err := json.Unmarshal(text, &rows); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(100)
	for _, row := range rows {
		group, rest, _ := strings.Cut(row.Name, ": ")
		make, ok := operations[group]
		if !ok {
			continue
		}
		operation, err := make(strings.Split(rest, ", "))
		if err != nil {
			return fmt.Errorf("%s: %w", row.Name, err)
		}
		line, err := json.Marshal(operation.measure(row.Name))
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	return nil
}

func (o Operation) measure(name string) (found Measured) {
	found.Name = name
	defer func() {
		deadline = 0
		if end := recover(); end != nil {
			at, ok := end.(unfinished)
			if !ok {
				panic(end)
			}
			found.Stood = fmt.Sprintf("%d of %d after %v", at.done, o.Total, limit)
		}
	}()
	counted, deadline = 0, cpuTime()+limit
	times := 1
	spent := o.round(times)
	for spent < shortest {
		times *= 2
		spent = o.round(times)
	}
	samples := []float64{float64(spent) / float64(times)}
	if spent < long {
		for range rounds - 1 {
			deadline = cpuTime() + limit
			samples = append(samples, float64(o.round(times))/float64(times))
		}
	}
	slices.Sort(samples)
	found.CPUNs = samples[len(samples)/2]
	return found
}

func (o Operation) round(times int) time.Duration {
	begin := cpuTime()
	for range times {
		o.Run()
	}
	return cpuTime() - begin
}
