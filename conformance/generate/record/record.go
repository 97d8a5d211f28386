// Package record writes test vectors: it chooses inputs by a seed, asks a program's own code for its decisions, and
// writes both. It can also replay a file: decide its inputs again and compare.
package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Family is a kind of test vectors: how an input is chosen, and what the program decides about it.
type Family struct {
	Name     string
	Cases    int
	Generate func(random *rand.Rand, number int) (tag string, input any, err error)
	Decide   func(input json.RawMessage) (any, error)
}

// ErrNoDecision is the error of a decision that the original does not make: it crashes. Another input is chosen.
var ErrNoDecision = errors.New("the original makes no decision")

// the most inputs that are chosen for one case.
const mostInputs = 1000

// Of is a family whose inputs have a type of their own. A crash of the original is no decision.
func Of[I any](name string, cases int, generate func(*rand.Rand) I, decide func(I) (any, error)) Family {
	return Family{
		Name:     name,
		Cases:    cases,
		Generate: func(random *rand.Rand, _ int) (string, any, error) { return "", generate(random), nil },
		Decide: func(text json.RawMessage) (answer any, err error) {
			defer func() {
				if crash := recover(); crash != nil {
					answer, err = nil, fmt.Errorf("%w: %v", ErrNoDecision, crash)
				}
			}()
			var input I
			if err := json.Unmarshal(text, &input); err != nil {
				return nil, err
			}
			return decide(input)
		},
	}
}

// Line is a line of a vector file.
type Line struct {
	Case    string          `json:"case,omitempty"`
	ID      string          `json:"id,omitempty"`
	Tag     string          `json:"tag,omitempty"`
	Family  string          `json:"family,omitempty"`
	Style   string          `json:"style,omitempty"`
	Machine json.RawMessage `json:"machine,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Expect  json.RawMessage `json:"expect"`
}

// Program is a generator.
type Program struct {
	// Families returns the families after the flags were read.
	Families func() []Family
	// Before writes files that the families need, if there are any.
	Before func(seed uint64, out string) error
	// BeforeReplay reads files beside the one that is replayed. It returns true if it replayed the file itself, and the
	// number of differences.
	BeforeReplay func(path string) (bool, int, error)
	// Operations are what can be measured beside our benchmark, by group: see Bench.
	Operations map[string]func(fields []string) (Operation, error)
}

// Main is the main function of a generator; it returns the exit code.
func Main(program Program) int {
	log.SetFlags(0)
	seed := flag.Uint64("seed", 1, "the seed: the same one makes the same bytes")
	out := flag.String("out", "", "the folder for the vector files")
	cases := flag.Int("cases", 0, "cases of each family (0: the family's own number)")
	only := flag.String("family", "", "families to make, separated by commas (all)")
	replay := flag.String("replay", "", "a vector file whose inputs are decided again and compared")
	bench := flag.String("bench", "", "a report of our benchmark (target/bench.json), whose rows are measured with the original")
	flag.Parse()
	known := program.Families()
	switch {
	case *bench != "":
		Check(Bench(*bench, program.Operations))
	case *replay != "":
		different, err := program.replay(known, *replay)
		Check(err)
		if different > 0 {
			return 1
		}
	case *out != "":
		Check(os.MkdirAll(*out, 0o755))
		if program.Before != nil {
			Check(program.Before(*seed, *out))
		}
		for _, family := range known {
			if *only == "" || strings.Contains(","+*only+",", ","+family.Name+",") {
				Check(family.write(*seed, *cases, *out))
			}
		}
	default:
		log.Print("vectors: give -out FOLDER or -replay FILE")
		return 1
	}
	return 0
}

// Check ends the program at an error.
func Check(err error) {
	if err != nil {
		log.Fatal("vectors: ", err)
	}
}

// Random is the source of random numbers of one case.
func Random(seed uint64, name string, number int) *rand.Rand {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%d", name, number)
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

func (f *Family) write(seed uint64, cases int, out string) error {
	if cases == 0 {
		cases = f.Cases
	}
	var lines bytes.Buffer
	for number := range cases {
		line, err := f.line(Random(seed, f.Name, number), number)
		if err != nil {
			return fmt.Errorf("%s %d: %w", f.Name, number, err)
		}
		if err := WriteLine(&lines, line); err != nil {
			return err
		}
	}
	return WriteFile(filepath.Join(out, f.Name+".jsonl.gz"), lines.Bytes())
}

// line makes a case that the original decides.
func (f *Family) line(random *rand.Rand, number int) (Line, error) {
	for range mostInputs {
		tag, input, err := f.Generate(random, number)
		if err != nil {
			return Line{}, err
		}
		text, err := json.Marshal(input)
		if err != nil {
			return Line{}, err
		}
		expect, err := f.Decide(text)
		if errors.Is(err, ErrNoDecision) {
			continue
		}
		if err != nil {
			return Line{}, err
		}
		found, err := json.Marshal(expect)
		if err != nil {
			return Line{}, err
		}
		return Line{Case: fmt.Sprintf("%s-%05d", f.Name, number), Tag: tag, Input: text, Expect: found}, nil
	}
	return Line{}, fmt.Errorf("the original decides none of %d inputs", mostInputs)
}
