// Prepare writes what "go build" needs to build a generator against one version of a program: a go.mod with that version,
// and an overlay that adds files of ours to its packages, makes the order of map iterations fixed where it changes a
// decision, and leaves out what the decisions do not need.
package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("prepare: ")
	if len(os.Args) != 3 {
		log.Fatal("usage: prepare PROGRAM FOLDER, as in: prepare kubelet-1.33 target/generate/kubelet-1.33")
	}
	version, err := find(os.Args[1])
	check(err)
	out, err := filepath.Abs(os.Args[2])
	check(err)
	check(os.MkdirAll(out, 0o755))
	source, err := download(version.module + "@" + version.number)
	check(err)
	check(link(source, linked(out)))
	mod, err := version.goMod(source, out)
	check(err)
	check(os.WriteFile(filepath.Join(out, "go.mod"), mod, 0o644))
	name, _, _ := strings.Cut(os.Args[1], "-")
	program := programs[name]
	overlay, err := program.overlay(out)
	check(err)
	check(os.WriteFile(filepath.Join(out, "overlay.json"), overlay, 0o644))
	check(os.WriteFile(filepath.Join(out, "version"), []byte(version.number), 0o644))
	check(os.WriteFile(filepath.Join(out, "tags"), []byte(strings.Join(version.tags, ",")), 0o644))
	check(os.WriteFile(filepath.Join(out, "package"), []byte(program.folder), 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// version is a line of versions.txt.
type version struct {
	module, number string
	tags           []string
	// others are modules at another version than the program's own go.mod has.
	others map[string]string
}

// find looks a program up in versions.txt.
func find(name string) (version, error) {
	text, err := os.ReadFile("versions.txt")
	if err != nil {
		return version{}, err
	}
	var known []string
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] == "#" {
			continue
		}
		if fields[0] != name {
			known = append(known, fields[0])
			continue
		}
		found := version{module: fields[1], number: fields[2], others: map[string]string{}}
		for _, field := range fields[3:] {
			if module, number, ok := strings.Cut(field, "="); ok {
				found.others[module] = number
			} else {
				found.tags = append(found.tags, field)
			}
		}
		return found, nil
	}
	return version{}, fmt.Errorf("no program %q in versions.txt; there are: %s", name, strings.Join(known, ", "))
}

// linked is where the build finds the program's module: a link to its folder in the module cache, because an overlay must
// not name files of the cache itself.
func linked(out string) string { return filepath.Join(out, "source") }

func link(source, to string) error {
	if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.Symlink(source, to)
}

// overlay adds the files below _inside to the packages of the module, applies the pins, and leaves out what is not
// needed.
func (p *program) overlay(out string) ([]byte, error) {
	source := linked(out)
	replace := map[string]string{}
	added, err := files(filepath.Join(p.folder, "_inside"))
	if err != nil {
		return nil, err
	}
	for name, from := range added {
		replace[filepath.Join(source, ours(name))] = from
	}
	texts := map[string]string{}
	for _, pin := range p.pins {
		text, ok := texts[pin.file]
		if !ok {
			read, err := os.ReadFile(filepath.Join(source, pin.file))
			if err != nil {
				return nil, err
			}
			text = "//go:build go1.23\n\n" + string(read)
		}
		if !pin.pattern.MatchString(text) {
			return nil, fmt.Errorf("%s: nothing matches %s", pin.file, pin.pattern)
		}
		texts[pin.file] = pin.pattern.ReplaceAllString(text, pin.by)
	}
	for file, text := range texts {
		changed := filepath.Join(out, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(changed, []byte(text), 0o644); err != nil {
			return nil, err
		}
		replace[filepath.Join(source, file)] = changed
	}
	if err := p.leaveOut(replace, source); err != nil {
		return nil, err
	}
	return json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
}

// ours is the name that a file of ours has in a package of the module.
func ours(name string) string {
	return filepath.Join(filepath.Dir(name), "zz_vectors_"+filepath.Base(name))
}

// files are the Go files below a folder: their paths in it, and where they are.
func files(folder string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) && path == folder {
			return nil
		}
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		found[name], err = filepath.Abs(path)
		return err
	})
	return found, err
}

// leaveOut removes files of packages, and puts the packages below _around in the place of others: an empty name in an
// overlay means that a file is not there.
func (p *program) leaveOut(replace map[string]string, source string) error {
	around, err := files(filepath.Join(p.folder, "_around"))
	if err != nil {
		return err
	}
	keep := maps.Clone(p.kept)
	if keep == nil {
		keep = map[string][]string{}
	}
	for name := range around {
		folder := filepath.Dir(name)
		keep[folder] = p.kept[folder]
	}
	for name, files := range keep {
		found, err := filepath.Glob(filepath.Join(source, filepath.FromSlash(name), "*.go"))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("%s: no such package in this version", name)
		}
		for _, file := range found {
			if !slices.Contains(files, filepath.Base(file)) {
				replace[file] = ""
			}
		}
	}
	for _, name := range p.left {
		file := filepath.Join(source, name)
		if _, err := os.Stat(file); err != nil {
			return err
		}
		replace[file] = ""
	}
	for name, from := range around {
		replace[filepath.Join(source, ours(name))] = from
	}
	return nil
}
