// Package container stands in for the kubelet's package of the same name. The managers use these types only to hand what
// they decided to the runtime.
package container

import (
	"fmt"
	"strings"
)

type (
	// Annotation is one of a container.
	Annotation struct{ Name, Value string }
	// EnvVar is one of a container.
	EnvVar struct{ Name, Value string }
	// CDIDevice is a device by its CDI name.
	CDIDevice struct{ Name string }
	// DeviceInfo is a device of the host in a container.
	DeviceInfo struct{ PathOnHost, PathInContainer, Permissions string }
	// Mount is a folder of the host in a container.
	Mount struct {
		Name, ContainerPath, HostPath string
		ReadOnly, SELinuxRelabel      bool
	}
	// ContainerID is the runtime's ID of a container.
	ContainerID struct{ Type, ID string }
)

// ParseString reads "containerd://0123".
func (c *ContainerID) ParseString(text string) error {
	kind, id, ok := strings.Cut(text, "://")
	if !ok {
		return fmt.Errorf("%q is no container ID", text)
	}
	c.Type, c.ID = kind, id
	return nil
}
