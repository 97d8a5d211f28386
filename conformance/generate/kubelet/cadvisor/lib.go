//go:build cadvisorlib

// Package cadvisor names the types with which cAdvisor describes a machine: they moved to another module in Kubernetes 1.37.
package cadvisor

import v1 "github.com/google/cadvisor/lib/model"

type (
	MachineInfo   = v1.MachineInfo
	Node          = v1.Node
	Core          = v1.Core
	Cache         = v1.Cache
	HugePagesInfo = v1.HugePagesInfo
)
