package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// WriteLine appends a line of a vector file.
func WriteLine(to *bytes.Buffer, line Line) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(line)
}

// WriteFile writes a compressed file.
func WriteFile(path string, lines []byte) error {
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

// ReadFile reads the lines of a vector file.
func ReadFile(path string) ([]Line, error) {
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
	var lines []Line
	decoder := json.NewDecoder(bufio.NewReader(from))
	for {
		var line Line
		if err := decoder.Decode(&line); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: expected vectors, found none", path)
	}
	return lines, nil
}

// FamilyOf is the family that a file is named after.
func FamilyOf(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".jsonl")
}

// replay decides the inputs of a file again and prints every case with another answer.
func (p *Program) replay(known []Family, path string) (int, error) {
	if p.BeforeReplay != nil {
		if done, different, err := p.BeforeReplay(path); done || err != nil {
			return different, err
		}
	}
	lines, err := ReadFile(path)
	if err != nil {
		return 0, err
	}
	return Replay(FamilyOf(path), lines, func(line Line) (any, error) {
		name := line.Family
		if name == "" {
			name = FamilyOf(path)
		}
		for _, family := range known {
			if family.Name == name {
				return family.Decide(line.Input)
			}
		}
		return nil, fmt.Errorf("no family %q in this program", name)
	}), nil
}

// Replay prints the lines about which something else is decided than they expect, and returns their number.
func Replay(name string, lines []Line, decide func(Line) (any, error)) int {
	different := 0
	for _, line := range lines {
		found, err := decide(line)
		var text []byte
		if err == nil {
			text, err = json.Marshal(found)
		}
		if err != nil {
			fmt.Printf("%s%s: %v\n", line.Case, line.ID, err)
			different++
			continue
		}
		var before, now any
		Check(json.Unmarshal(line.Expect, &before))
		Check(json.Unmarshal(text, &now))
		if !reflect.DeepEqual(before, now) {
			fmt.Printf("%s%s %s:\n  expected %s\n  found    %s\n", line.Case, line.ID, line.Tag, line.Expect, text)
			different++
		}
	}
	fmt.Printf("%s: %d cases, %d different\n", name, len(lines), different)
	return different
}
