// The generator of Koordinator's vectors: the scheduler plugin NodeNUMAResource, with its accumulator, its resource
// manager and its topology manager.
package main

import (
	"math/rand/v2"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"pinfold.dev/generate/record"
)

func main() {
	klog.SetLogger(logr.Discard())
	os.Exit(record.Main(record.Program{Families: families}))
}

func families() []record.Family {
	return []record.Family{
		record.Of("amplify", 100, generateAmplify, decideAmplify),
		record.Of("score", 300, generateScore, decideScore),
		record.Of("cpu_take", 800, generateTake, decideTake),
		record.Of("hints_merge", 600, generateMerge, decideMerge),
		record.Of("hints", 300, generateHints, decideHints),
		record.Of("allocate", 500, generateAllocate, decideAllocate),
		record.Of("schedule", 250, func(r *rand.Rand) scheduleInput { return generateSchedule(r, false) }, decideSchedule),
		record.Of("schedule_numa", 250, func(r *rand.Rand) scheduleInput { return generateSchedule(r, true) }, decideSchedule),
	}
}
