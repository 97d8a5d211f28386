// Prepare writes what "go build" needs to build the generator against one version of Kubernetes: a go.mod with that
// version, and an overlay that adds files of ours to the kubelet's packages, makes the order of map iterations fixed
// where it changes a decision, and leaves out what the managers do not need.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A pin replaces text of a file of the kubelet in the copy that is compiled. It must match at least once: a version that
// reads differently has to be looked at.
type pin struct {
	file    string
	pattern *regexp.Regexp
	by      string
}

var pins = []pin{
	{
		"devicemanager/manager.go",
		regexp.MustCompile(`range devices\.Difference\(allocated\)`),
		"range vectorsSorted(devices.Difference(allocated))",
	},
	{
		"devicemanager/manager.go",
		regexp.MustCompile(`range container\.Resources\.Limits`),
		"range vectorsSorted(container.Resources.Limits)",
	},
	{
		"memorymanager/policy_static.go",
		regexp.MustCompile(`range (requestedResources|podTotalMemory|memoryAssignments|machineState|reqs|containerReqs) \{`),
		"range vectorsSorted($1) {",
	},
	{
		"memorymanager/policy_static.go",
		regexp.MustCompile(`(for containerName, blocks := )range container \{`),
		"${1}range vectorsSorted(container) {",
	},
	// A loop that hands out groups of CPUs never ends when no NUMA node has a whole group left.
	{
		"cpumanager/cpu_assignment.go",
		regexp.MustCompile(`for remainder > 0 \{`),
		"for passes := 0; remainder > 0; passes++ {\nvectorsPass(passes)",
	},
}

// kept are packages of which the managers need only these files. Without the others (predicates, pod sources) the build
// has a third of the packages. Packages of which they need some types only are replaced by those below _around.
var kept = map[string][]string{
	"pkg/kubelet/config":    {"sources.go", "defaults.go", "doc.go"},
	"pkg/kubelet/lifecycle": {"interfaces.go", "doc.go"},
	"pkg/kubelet/types":     {"constants.go", "pod_status.go", "pod_update.go", "doc.go"},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("prepare: ")
	if len(os.Args) != 3 {
		log.Fatal("usage: prepare VERSION FOLDER, as in: prepare 1.33 target/generate/1.33")
	}
	version, err := find(os.Args[1])
	check(err)
	out, err := filepath.Abs(os.Args[2])
	check(err)
	check(os.MkdirAll(out, 0o755))
	source, err := download("k8s.io/kubernetes@" + version.module)
	check(err)
	check(os.WriteFile(filepath.Join(out, "go.mod"), goMod(source, out, version.module), 0o644))
	overlay, err := overlay(source, out)
	check(err)
	check(os.WriteFile(filepath.Join(out, "overlay.json"), overlay, 0o644))
	check(os.WriteFile(filepath.Join(out, "version"), []byte(version.module), 0o644))
	check(os.WriteFile(filepath.Join(out, "tags"), []byte(strings.Join(version.tags, ",")), 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

type version struct {
	module string
	tags   []string
}

// find looks a minor version up in versions.txt.
func find(minor string) (version, error) {
	text, err := os.ReadFile("versions.txt")
	if err != nil {
		return version{}, err
	}
	var known []string
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		if fields[0] == minor {
			return version{fields[1], fields[2:]}, nil
		}
		known = append(known, fields[0])
	}
	return version{}, fmt.Errorf("no kubelet %q in versions.txt; there are: %s", minor, strings.Join(known, ", "))
}

// download puts a module into the module cache and returns its folder.
func download(module string) (string, error) {
	command := exec.Command("go", "mod", "download", "-json", module)
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	answer, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(answer, &found); err != nil {
		return "", err
	}
	return found.Dir, nil
}

// linked is where the build finds Kubernetes: a link to its folder in the module cache, because an overlay must not name
// files of the cache itself.
func linked(out string) string { return filepath.Join(out, "kubernetes") }

// goMod names the staging modules of Kubernetes, which have no version in its own go.mod, at the version that belongs to
// it: v0.33.7 to v1.33.7.
func goMod(source, out, module string) []byte {
	text, err := os.ReadFile(filepath.Join(source, "go.mod"))
	check(err)
	staged := regexp.MustCompile(`(k8s\.io/[a-z-]+) => \./staging`).FindAllStringSubmatch(string(text), -1)
	var mod strings.Builder
	fmt.Fprintf(&mod, "module pinfold.dev/generate\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes %s\n\nreplace (\n", module)
	for _, found := range staged {
		version, err := available(found[1], strings.TrimPrefix(module, "v1."))
		check(err)
		fmt.Fprintf(&mod, "\t%s => %s %s\n", found[1], found[1], version)
	}
	fmt.Fprintf(&mod, "\tk8s.io/kubernetes => %s\n)\n", linked(out))
	return []byte(mod.String())
}

// available is the version of a staging module: the one that belongs to Kubernetes, or the nearest earlier patch that
// can be had. These modules have types and clients; what decides is in Kubernetes itself.
func available(module, version string) (string, error) {
	minor, last, _ := strings.Cut(version, ".")
	patch, err := strconv.Atoi(last)
	if err != nil {
		return "", fmt.Errorf("%s is no release of Kubernetes", version)
	}
	for at := patch; at >= 0; at-- {
		version := fmt.Sprintf("v0.%s.%d", minor, at)
		if _, err = download(module + "@" + version); err == nil {
			return version, nil
		}
	}
	return "", err
}

// overlay adds the files below _inside to the packages of the kubelet, applies the pins, and leaves out what is not
// needed.
func overlay(source, out string) ([]byte, error) {
	if err := os.Remove(linked(out)); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	if err := os.Symlink(source, linked(out)); err != nil {
		return nil, err
	}
	packages := filepath.Join(linked(out), "pkg", "kubelet", "cm")
	replace := map[string]string{}
	added, err := filepath.Glob("_inside/*/*.go")
	if err != nil {
		return nil, err
	}
	for _, file := range added {
		from, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		name := "zz_vectors_" + filepath.Base(file)
		replace[filepath.Join(packages, filepath.Base(filepath.Dir(file)), name)] = from
	}
	texts := map[string]string{}
	for _, pin := range pins {
		text, ok := texts[pin.file]
		if !ok {
			read, err := os.ReadFile(filepath.Join(packages, pin.file))
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
		replace[filepath.Join(packages, file)] = changed
	}
	if err := leaveOut(replace, linked(out)); err != nil {
		return nil, err
	}
	return json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
}

// leaveOut removes files of packages, and puts the packages below _around in the place of others: an empty name in an
// overlay means that a file is not there.
func leaveOut(replace map[string]string, source string) error {
	keep := maps.Clone(kept)
	around, err := filepath.Glob("_around/pkg/*/*/*.go")
	if err != nil {
		return err
	}
	for _, file := range around {
		name, err := filepath.Rel("_around", filepath.Dir(file))
		if err != nil {
			return err
		}
		keep[name] = nil
	}
	for name, files := range keep {
		folder := filepath.Join(source, filepath.FromSlash(name))
		found, err := filepath.Glob(filepath.Join(folder, "*.go"))
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
	for _, file := range around {
		from, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel("_around", file)
		if err != nil {
			return err
		}
		replace[filepath.Join(source, filepath.Dir(name), "zz_vectors_"+filepath.Base(name))] = from
	}
	return nil
}
