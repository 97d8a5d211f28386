// Beside writes the part of docs/benchmarks.md that compares our benchmark with the originals in one run: it reads
// target/bench.json and the lines that the generators printed with -bench.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"slices"
	"strings"

	"pinfold.dev/generate/record"
)

const mark = "<!-- make bench-originals -->"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 5 {
		log.Fatal("usage: beside PAGE BENCH.JSON ORIGINALS.JSONL LOAD")
	}
	ours, originals := read(os.Args[2]), lines(os.Args[3])
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n## Beside the originals, in one run\n\n", mark)
	fmt.Fprintf(&text, "`make bench-originals`: CPU time per operation of Pinfold (the least of five rounds) and of the kubelet's own functions (v1.36.4, the median of five rounds), one after the other on one machine with a load average of %s. An operation that was not finished has the number of combinations that it had merged, of all.\n\n", os.Args[4])
	text.WriteString("| | CPU ns/op | original CPU ns/op | ratio |\n|---|--:|--:|--:|\n")
	var ratios []float64
	for _, row := range originals {
		own, ok := ours[row.Name]
		if !ok {
			log.Fatalf("%s: not in %s", row.Name, os.Args[2])
		}
		if row.Stood != "" {
			fmt.Fprintf(&text, "| %s | %.0f | not finished: %s | |\n", row.Name, own, row.Stood)
			continue
		}
		ratio := row.CPUNs / own
		ratios = append(ratios, ratio)
		fmt.Fprintf(&text, "| %s | %.0f | %.0f | %s |\n", row.Name, own, row.CPUNs, times(ratio))
	}
	slices.Sort(ratios)
	if len(ratios) > 0 {
		fmt.Fprintf(&text, "\nThe least ratio is %s, the median %s, of %d rows that the original finished.\n", times(ratios[0]), times(ratios[len(ratios)/2]), len(ratios))
	}
	page, err := os.ReadFile(os.Args[1])
	record.Check(err)
	record.Check(os.WriteFile(os.Args[1], []byte(replaced(string(page), text.String())), 0o644))
}

// times is a ratio with two digits that count.
func times(ratio float64) string {
	if ratio >= 100 {
		return fmt.Sprintf("%.0f×", math.Round(ratio))
	}
	return fmt.Sprintf("%.1f×", ratio)
}

// replaced is the page with the part between its mark and the next one replaced.
func replaced(page, part string) string {
	begin := strings.Index(page, mark)
	if begin < 0 {
		return strings.TrimRight(page, "\n") + "\n\n" + part
	}
	end := strings.Index(page[begin+len(mark):], "\n<!-- make bench-")
	if end < 0 {
		return page[:begin] + part
	}
	return page[:begin] + part + page[begin+len(mark)+end:]
}

func read(path string) map[string]float64 {
	text, err := os.ReadFile(path)
	record.Check(err)
	var rows []struct {
		Name  string  `json:"name"`
		CPUNs float64 `json:"cpu_ns"`
	}
	record.Check(json.Unmarshal(text, &rows))
	found := map[string]float64{}
	for _, row := range rows {
		found[row.Name] = row.CPUNs
	}
	return found
}

func lines(path string) []record.Measured {
	file, err := os.Open(path)
	record.Check(err)
	defer file.Close()
	var found []record.Measured
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		var row record.Measured
		record.Check(json.Unmarshal(scanner.Bytes(), &row))
		found = append(found, row)
	}
	record.Check(scanner.Err())
	return found
}
