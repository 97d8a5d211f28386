// The generator of Volcano's vectors: the scheduler plugin numa-aware with its policies and its provider of CPUs.
package main

import (
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
		record.Of("take", 600, generateTake, decideTake),
		record.Of("hints", 300, generateHints, decideHints),
		record.Of("allocate", 300, generateAllocate, decideAllocate),
		record.Of("merge", 400, generateMerge, decideMerge),
		record.Of("score", 200, generateScore, decideScore),
		record.Of("session", 250, generateSession, decideSession),
	}
}
