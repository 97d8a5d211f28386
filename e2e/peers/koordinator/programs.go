//go:build tools

// Package programs names the programs that `go build` makes here, so that go.mod keeps them.
package programs

import (
	_ "github.com/koordinator-sh/koordinator/cmd/koord-scheduler"
	_ "github.com/koordinator-sh/koordinator/cmd/koordlet"
)
