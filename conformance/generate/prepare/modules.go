package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// download puts a module into the module cache and returns its folder.
func download(module string) (string, error) {
	var found struct{ Dir string }
	err := ask(&found, "mod", "download", "-json", module)
	return found.Dir, err
}

func ask(answer any, arguments ...string) error {
	command := exec.Command("go", arguments...)
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	text, err := command.Output()
	if err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(arguments, " "), err)
	}
	return json.Unmarshal(text, answer)
}

// goMod requires the program's module, with the replacements of its own go.mod: those of a module that is not the main
// one have no effect otherwise. The staging modules of Kubernetes, which its go.mod takes from its own folder, are
// required at the version that belongs to it: v0.33.7 to v1.33.7.
func (v *version) goMod(source, out string) ([]byte, error) {
	var own struct {
		Require []struct{ Path, Version string }
		Replace []struct {
			Old, New struct{ Path, Version string }
		}
	}
	if err := ask(&own, "mod", "edit", "-json", filepath.Join(source, "go.mod")); err != nil {
		return nil, err
	}
	replaced := map[string]string{}
	for _, found := range own.Replace {
		if _, ok := v.others[found.Old.Path]; ok {
			continue
		}
		if !strings.HasPrefix(found.New.Path, "./") {
			replaced[found.Old.Path] = found.New.Path + " " + found.New.Version
			continue
		}
		number, err := available(found.Old.Path, "v0."+strings.TrimPrefix(v.number, "v1."))
		if err != nil {
			return nil, err
		}
		replaced[found.Old.Path] = found.Old.Path + " " + number
	}
	for path, number := range v.others {
		replaced[path] = path + " " + number
	}
	for path, by := range replaced {
		module, number, _ := strings.Cut(by, " ")
		if !strings.HasPrefix(module, "k8s.io/") {
			continue
		}
		found, err := available(module, number)
		if err != nil {
			// A module that cannot be had is one that the build does not need: it would not get further otherwise.
			delete(replaced, path)
			continue
		}
		replaced[path] = module + " " + found
	}
	replaced[v.module] = linked(out)
	var mod strings.Builder
	fmt.Fprintf(&mod, "module pinfold.dev/generate\n\ngo 1.26.0\n\nrequire %s %s\n\nreplace (\n", v.module, v.number)
	for _, path := range slices.Sorted(maps.Keys(replaced)) {
		fmt.Fprintf(&mod, "\t%s => %s\n", path, replaced[path])
	}
	mod.WriteString(")\n")
	return []byte(mod.String()), nil
}

var release = regexp.MustCompile(`^(v\d+\.\d+\.)(\d+)$`)

// available is a version of a module of Kubernetes, or the nearest earlier patch that can be had. These modules have types
// and clients; what decides is in the programs themselves.
func available(module, version string) (string, error) {
	parts := release.FindStringSubmatch(version)
	if parts == nil {
		return version, nil
	}
	patch, err := strconv.Atoi(parts[2])
	if err != nil {
		return "", err
	}
	for at := patch; at >= 0; at-- {
		found := fmt.Sprintf("%s%d", parts[1], at)
		var answer struct{ Version string }
		if err = ask(&answer, "list", "-m", "-json", module+"@"+found); err == nil {
			return found, nil
		}
	}
	return "", err
}
