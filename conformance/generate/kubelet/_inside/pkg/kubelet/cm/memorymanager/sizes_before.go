//go:build !sizes

package memorymanager

var vectorsContainerRequests = getRequestedResources
