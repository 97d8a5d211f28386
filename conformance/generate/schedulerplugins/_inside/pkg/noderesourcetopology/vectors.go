//go:build go1.23

// What the generator of test vectors needs of this package and is not exported.

package noderesourcetopology

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/go-logr/logr"
	topologyv1alpha2 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	apiconfig "sigs.k8s.io/scheduler-plugins/apis/config"
	nrtcache "sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology/cache"
)

// initNodeTopologyInformer is not part of the build: the generator gives the plugin its report itself.
func initNodeTopologyInformer(context.Context, logr.Logger, *apiconfig.NodeResourceTopologyMatchArgs, framework.Handle) (nrtcache.Interface, error) {
	return nil, errors.New("no informer in this build")
}

// VectorsReport is a cache with the report of one node, always fresh. It keeps whether the node was marked as maybe
// over-reserved.
type VectorsReport struct {
	Report *topologyv1alpha2.NodeResourceTopology
	Marked bool
}

// GetCachedNRTCopy returns the report.
func (c *VectorsReport) GetCachedNRTCopy(context.Context, string, *corev1.Pod) (*topologyv1alpha2.NodeResourceTopology, nrtcache.CachedNRTInfo) {
	return c.Report.DeepCopy(), nrtcache.CachedNRTInfo{Fresh: true}
}

// NodeMaybeOverReserved keeps the mark.
func (c *VectorsReport) NodeMaybeOverReserved(string, *corev1.Pod) { c.Marked = true }

func (c *VectorsReport) NodeHasForeignPods(string, *corev1.Pod)     {}
func (c *VectorsReport) ReserveNodeResources(string, *corev1.Pod)   {}
func (c *VectorsReport) UnreserveNodeResources(string, *corev1.Pod) {}
func (c *VectorsReport) PostBind(string, *corev1.Pod)               {}

// VectorsPlugin is the plugin with a report and a scoring strategy.
func VectorsPlugin(report *VectorsReport, strategy string, weights map[string]int64) (*TopologyMatch, error) {
	kind := apiconfig.ScoringStrategyType(strategy)
	score, err := getScoringStrategyFunction(kind)
	if err != nil {
		return nil, err
	}
	byResource := resourceToWeightMap{}
	for name, weight := range weights {
		byResource[corev1.ResourceName(name)] = weight
	}
	return &TopologyMatch{
		logger: klog.Background(), resourceToWeightMap: byResource, nrtCache: report,
		scoreStrategyFunc: score, scoreStrategyType: kind,
	}, nil
}
