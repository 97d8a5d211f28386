package main

import "regexp"

// A program is what vectors are made of: the folder of its generator, and what is changed in its module for the build.
// Files below _inside of that folder are added to the module, packages below _around replace those of the module.
type program struct {
	folder string
	pins   []pin
	// kept are packages of which only these files are needed. Without the others the build has a third of the packages.
	kept map[string][]string
	// left are files that are left out of a package.
	left []string
}

// A pin replaces text of a file of the module in the copy that is compiled. It must match at least once: a version that
// reads differently has to be looked at.
type pin struct {
	file    string
	pattern *regexp.Regexp
	by      string
}

// programs are found by the first part of a name: "kubelet" for "kubelet-1.33".
var programs = map[string]program{
	"kubelet": {
		folder: "kubelet",
		pins: []pin{
			{
				"pkg/kubelet/cm/devicemanager/manager.go",
				regexp.MustCompile(`range devices\.Difference\(allocated\)`),
				"range vectorsSorted(devices.Difference(allocated))",
			},
			{
				"pkg/kubelet/cm/devicemanager/manager.go",
				regexp.MustCompile(`range container\.Resources\.Limits`),
				"range vectorsSorted(container.Resources.Limits)",
			},
			{
				"pkg/kubelet/cm/memorymanager/policy_static.go",
				regexp.MustCompile(`range (requestedResources|podTotalMemory|memoryAssignments|machineState|reqs|containerReqs) \{`),
				"range vectorsSorted($1) {",
			},
			{
				"pkg/kubelet/cm/memorymanager/policy_static.go",
				regexp.MustCompile(`(for containerName, blocks := )range container \{`),
				"${1}range vectorsSorted(container) {",
			},
			// Merging hints may take years: the benchmark counts the combinations and ends at its limit.
			{
				"pkg/kubelet/cm/topologymanager/policy.go",
				regexp.MustCompile(`(\t+)callback\(accum\)`),
				"${1}record.Count()\n${1}callback(accum)",
			},
			{
				"pkg/kubelet/cm/topologymanager/policy.go",
				regexp.MustCompile(`(?s)import \((.*?)\n\)`),
				"import (\n\t\"pinfold.dev/generate/record\"\n$1\n)",
			},
			// A loop that hands out groups of CPUs never ends when no NUMA node has a whole group left.
			{
				"pkg/kubelet/cm/cpumanager/cpu_assignment.go",
				regexp.MustCompile(`for remainder > 0 \{`),
				"for passes := 0; remainder > 0; passes++ {\nvectorsPass(passes)",
			},
		},
		kept: map[string][]string{
			"pkg/kubelet/config":    {"sources.go", "defaults.go", "doc.go"},
			"pkg/kubelet/lifecycle": {"interfaces.go", "doc.go"},
			"pkg/kubelet/types":     {"constants.go", "pod_status.go", "pod_update.go", "doc.go"},
		},
	},
	"koordinator": {
		folder: "koordinator",
		pins: []pin{
			{
				"pkg/scheduler/frameworkext/topologymanager/policy.go",
				regexp.MustCompile(`for resource := range hints \{`),
				"for _, resource := range vectorsSorted(hints) {",
			},
		},
		kept: map[string][]string{
			"pkg/util":             {"container.go", "extended_resource.go", "pod.go", "pod_resources_utils.go", "resource.go", "selector.go"},
			"pkg/util/reservation": {"reservation.go"},
		},
		left: []string{
			"pkg/scheduler/plugins/nodenumaresource/pod_eventhandler.go",
			"pkg/scheduler/plugins/nodenumaresource/service.go",
			"pkg/scheduler/plugins/nodenumaresource/topology_eventhandler.go",
		},
	},
	"volcano": {
		folder: "volcano",
		pins: []pin{
			{
				"pkg/scheduler/plugins/numaaware/policy/policy.go",
				regexp.MustCompile(`for resource := range hints \{`),
				"for _, resource := range vectorsSorted(hints) {",
			},
			// The sockets are sorted by a comparison that is no order, so the order before it shows.
			{
				"pkg/scheduler/plugins/numaaware/provider/cpumanager/cpu_assignment.go",
				regexp.MustCompile(`Sockets\(\)\.UnsortedList\(\)`),
				"Sockets().List()",
			},
			// Of this file the plugin calls one function.
			{
				"pkg/scheduler/plugins/util/util.go",
				regexp.MustCompile(`(?s)import \(.*?\n\)`),
				`import "volcano.sh/volcano/pkg/scheduler/api"`,
			},
			{
				"pkg/scheduler/plugins/util/util.go",
				regexp.MustCompile(`(?s)// GetAllocatedResource returns.*`),
				"",
			},
		},
		kept: map[string][]string{
			"pkg/scheduler/api":       {"numa_info.go", "unschedule_info.go"},
			"pkg/scheduler/framework": {"arguments.go"},
		},
	},
	"scheduler": {
		folder: "schedulerplugins",
		pins: []pin{
			// Of this file the decisions need what reads a report.
			{
				"pkg/noderesourcetopology/pluginhelpers.go",
				regexp.MustCompile(`(?s)import \(.*?\n\)`),
				`import (
	corev1 "k8s.io/api/core/v1"

	"github.com/go-logr/logr"
	topologyv1alpha2 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2/helper"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2/helper/numanode"

	apiconfig "sigs.k8s.io/scheduler-plugins/apis/config"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology/stringify"
)`,
			},
			{
				"pkg/noderesourcetopology/pluginhelpers.go",
				regexp.MustCompile(`(?s)func initNodeTopologyInformer.*?\nfunc createNUMANodeList`),
				"func createNUMANodeList",
			},
		},
		kept: map[string][]string{
			"pkg/noderesourcetopology/cache": {"cache.go"},
			"pkg/util":                       {"resource.go", "sidecar.go"},
		},
	},
}
