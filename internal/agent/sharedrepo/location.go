package sharedrepo

import (
	"slipway.dev/slipway/internal/wire"
)

// Location is the address of a Shared Configuration Repository: the repository,
// a folder in it, and a branch. An empty branch is the default one.
type Location = wire.SharedRepository

// Parse reads <repo>.git[/<path>][?ref=<branch>] (R57).
func Parse(text string) (Location, error) { return wire.ParseSharedRepository(text) }
