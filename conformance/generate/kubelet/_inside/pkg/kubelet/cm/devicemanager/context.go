//go:build devicectx

package devicemanager

import (
	"context"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func (e vectorsEndpoint) getPreferredAllocation(_ context.Context, available, must []string, size int) (*pluginapi.PreferredAllocationResponse, error) {
	return e.prefer(available, must, size)
}

func (e vectorsEndpoint) allocate(context.Context, []string) (*pluginapi.AllocateResponse, error) {
	return e.accept()
}

func (e vectorsEndpoint) preStartContainer(context.Context, []string) (*pluginapi.PreStartContainerResponse, error) {
	return &pluginapi.PreStartContainerResponse{}, nil
}
