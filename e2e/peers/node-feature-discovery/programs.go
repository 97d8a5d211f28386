//go:build tools

// Package programs names the program that `go build` makes here, so that go.mod keeps it.
package programs

import (
	_ "sigs.k8s.io/node-feature-discovery/cmd/nfd-topology-updater"
)
