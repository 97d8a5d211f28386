//go:build tools

// Package programs names the program that `go build` makes here, so that go.mod keeps it.
package programs

import (
	_ "volcano.sh/volcano/cmd/scheduler"
)
