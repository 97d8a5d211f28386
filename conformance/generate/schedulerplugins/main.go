// The generator of the vectors of scheduler-plugins: the plugin NodeResourceTopologyMatch with reports that are always
// fresh.
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
		record.Of("nrt_filter", 600, generateFilter, decideFilter),
		record.Of("nrt_score", 600, generateScore, decideScore),
	}
}
