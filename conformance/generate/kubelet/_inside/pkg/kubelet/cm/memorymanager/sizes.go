//go:build sizes

package memorymanager

var vectorsContainerRequests = getContainerRequestedResources
